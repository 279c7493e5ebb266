"""Keeps the draft of the form in the browser's tab, so that it comes back when the page is loaded anew."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

from dashboard.auth.api_client import me
from dashboard.data.submission_key import submitted
from dashboard.views.new.edited_config import EditedConfig
from dashboard.views.new.kept_draft import FORM, YAML, KeptDraft, draft_of, text_of
from dashboard.views.new.submission_options import LONGEST_NOTES, blank_options
from dashboard.views.new.yaml_editor import is_typed

SCRIPT = Path(__file__).parents[2] / "assets" / "keep_draft.js"
NEW = "new"
"""What its form submits for; see submission_key."""
STORE, READ, BACK, SUBMITTED = "draft-store", "draft-read", "draft-is-back", "draft-submitted"
"""Keys of the session: the component; whether this session has a draft of its own by now; the origin of the one that the browser gave
back; and whether the browser is to forget it."""
state = st.session_state


@cache
def _store() -> ComponentRenderer:
    return st.components.v2.component("longtail_draft_store", js=SCRIPT.read_text(encoding="utf-8"))


def keep_draft(origin: str, tags: str) -> None:
    """Of what is typed by now; a new session asks for the browser's draft before it says anything, also where it already knows what some
    fields of a page say that was open before. ``tags`` are those that the origin has."""
    state[SUBMITTED] = False
    text = text_of(present_draft(origin, tags)) if "draft" in state else None
    if text is not None:
        state[READ] = True
    _mount(text)


def forget_submitted_draft() -> None:
    """For any page after the form: the one that submits is left before the browser hears of it."""
    if state.get(SUBMITTED):
        _mount(None)


def present_draft(origin: str, tags: str) -> KeptDraft:
    blank = blank_options(origin, tags)
    options = {key: state[key] for key, nothing in blank.items() if key in state and state[key] not in (nothing, None)}
    as_yaml = state.get("editor") == YAML and not state.get("unwritten", True) and is_typed()
    return KeptDraft(origin, state.get("draft", EditedConfig()), state["yaml"] if as_yaml else None, options)


def drop_draft() -> None:
    """All that was typed, whatever it was typed into."""
    for name in ("draft", BACK, *blank_options(state.get("from", ""), "")):
        state.pop(name, None)
    submitted(NEW)
    state["unwritten"] = True


def draft_is_back(origin: str) -> None:
    """Says so, once the browser has given it back."""
    if state.get(BACK) == origin:
        with st.container(horizontal=True, vertical_alignment="center", key="draft-is-back"):
            st.markdown(":gray[What you had typed is back.]", width="content")
            st.button("Start over", on_click=drop_draft, type="tertiary")


def _mount(text: str | None) -> None:
    data = {"user": me().user, "draft": text, "asks": not state.get(READ, False)}
    _store()(key=STORE, data=data, height=1, on_found_change=_take)


def _take() -> None:
    """What the browser has found. An address that names another origin wins over it, and so does what has been typed meanwhile."""
    draft = draft_of(state[STORE].found)
    wanted = st.query_params.get("from") if state.get("origin-asked") else None
    if state.get(READ) or draft is None or draft.is_empty or wanted not in (None, draft.origin):
        state[READ] = True
        return
    state[READ], state[BACK] = True, draft.origin
    st.query_params["from"] = state["from"] = state["taken"] = draft.origin
    state["draft"], state["unwritten"] = draft.config, draft.yaml is None
    state["editor"] = FORM if draft.yaml is None else YAML
    if draft.yaml is not None:
        state["yaml"] = draft.yaml
    state.update(_options_of(draft))


def _options_of(draft: KeptDraft) -> Mapping[str, Any]:
    """Those that the page has, of the right kind."""
    blank = blank_options(draft.origin, "")
    told = {key: value for key, value in (draft.options or {}).items() if key in blank and type(value) is type(blank[key])}
    return {key: value[:LONGEST_NOTES] if isinstance(value, str) else value for key, value in told.items()}
