"""The form of what a run is called and what is written about it. What the API refuses stays in it, to be saved once more."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client, me
from dashboard.text.escaping import escaped
from dashboard.text.formats import MISSING
from longtail import ApiError
from longtail.schemas.runs import Run

CHANGED_MEANWHILE = 412
FIELDS = ("name", "tags", "project_id", "owner", "notes")


@dataclass(frozen=True)
class RefusedEdit:
    changes: dict[str, Any]
    error: ApiError


def record_form(run: Run, projects: dict[str, str], is_open: bool) -> None:
    """``projects``: names by id. A click on Save acts before the page is drawn, as that may be with the form of a newer revision."""
    run = _as_opened(run, is_open)
    shown = _fields(run)
    refused: RefusedEdit | None = st.session_state.get(_refused(run.id))
    if refused is not None:
        _explain(refused.error)
        shown |= refused.changes
    key = f"record-{run.id}-{run.revision}"
    with st.form(key, border=False):
        st.text_input("Name", shown["name"], max_chars=200, key=f"{key}-name")
        tags = list(dict.fromkeys([*run.tags, *shown["tags"]]))
        st.multiselect("Tags", tags, shown["tags"], accept_new_options=True, max_selections=32, key=f"{key}-tags")
        ids = list(dict.fromkeys([*projects, run.project_id, shown["project_id"]]))
        at = ids.index(shown["project_id"])
        st.selectbox("Project", ids, at, format_func=lambda each: projects.get(each, MISSING), key=f"{key}-project_id")
        help, is_admin = "Only admins give a run to another owner.", me().role == "admin"
        st.text_input("Owner", shown["owner"], disabled=not is_admin, help=help, key=f"{key}-owner")
        st.text_area("Notes", shown["notes"], max_chars=20_000, height=160, width=460, key=f"{key}-notes")
        saved = st.form_submit_button("Save", type="primary", on_click=_save, args=(run, key))
    if saved:
        st.session_state.pop(_opened(run.id), None)
        st.rerun()  # the whole page, which shows the name, too


def _as_opened(run: Run, is_open: bool) -> Run:
    """While it is open, the form is that of one revision: with a newer one, which somebody else has saved, it would begin anew, and what
    was typed into it be lost."""
    if not is_open:
        st.session_state.pop(_opened(run.id), None)
        return run
    opened: Run = st.session_state.setdefault(_opened(run.id), run)
    return opened


def _save(run: Run, key: str) -> None:
    """What somebody else has saved since the form was drawn is not overwritten: the API refuses that."""
    state, before = st.session_state, _fields(run)
    wanted = {field: state[f"{key}-{field}"] for field in FIELDS}
    wanted |= {field: wanted[field].strip() for field in ("name", "owner")}
    changes = {field: value for field, value in wanted.items() if value != before[field]}
    state.pop(_refused(run.id), None)
    try:
        if changes:
            client().change_run(run.id, run.revision, **changes)
    except ApiError as error:
        state[_refused(run.id)] = RefusedEdit(changes, error)


def _explain(error: ApiError) -> None:
    if error.status == CHANGED_MEANWHILE:
        st.warning("**Not saved**: somebody has changed this run meanwhile. Save writes your changes, which are below, over theirs.")
    else:
        st.error(f"**Not saved**: {escaped(str(error))}", icon="⚠️")


def _fields(run: Run) -> dict[str, Any]:
    return {field: getattr(run, field) or "" for field in FIELDS} | {"tags": run.tags}


def _opened(run_id: str) -> str:
    return f"opened-record-{run_id}"


def _refused(run_id: str) -> str:
    return f"refused-edit-{run_id}"
