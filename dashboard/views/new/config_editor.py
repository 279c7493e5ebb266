"""The configuration that a new run is going to have: what it begins as, and the two ways to edit it."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client, run_if_any
from dashboard.text.escaping import escaped
from dashboard.text.formats import short
from dashboard.views.new.config_form import MAIN, ErrorSlots, Form, sections
from dashboard.views.new.edited_config import EditedConfig, with_defaults
from dashboard.views.new.kept_draft import FORM, YAML
from dashboard.views.new.schema_fields import Config
from dashboard.views.new.yaml_editor import WRITTEN, NotAConfigError, dump, is_typed, parse, yaml_editor
from longtail.schemas.runs import Preset, Run
from longtail.schemas.validation import Validation

RECENT = 50
Origin = Preset | Run
state = st.session_state


@st.cache_data(ttl=60, show_spinner=False)
def presets() -> list[Preset]:
    return client().presets()


@st.cache_data(ttl=10, show_spinner=False)
def model_names() -> tuple[str, ...]:
    return tuple(model.name for model in client().models() if model.fault is None)


@st.cache_data(ttl=10, scope="session", show_spinner=False)
def recent_runs() -> list[Run]:
    return [run for run in client().runs(limit=RECENT).items if run.kind == "engine"]


def origin_title(origin: Origin) -> str:
    return origin.title if isinstance(origin, Preset) else f"{origin.name} ({origin.id[:6]})"


def choose_origin() -> Origin:
    """Draws the choice of what to begin with, a preset or a run, which the address may name."""
    known: dict[str, Origin] = {preset.name: preset for preset in presets()} | {run.id: run for run in recent_runs()}
    state.setdefault("origin-asked", "from" in st.query_params)
    asked = _asked(known)
    if asked is None and state.get("from", next(iter(known))) not in known:
        del state["from"]
        if state.get("editor") == YAML:  # whose text needs no origin, but is no longer what the form says of one
            state.pop(WRITTEN, None)
        else:
            start_over()
    if asked is not None and asked != state.get("taken"):
        state["from"] = asked
        start_over()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        label = "Start from a preset, or from a run"
        choice: dict[str, Any] = {"key": "from", "persist_state": "session", "width": 420}
        name = st.selectbox(label, list(known), format_func=lambda name: origin_title(known[name]), on_change=start_over, **choice)
        editors = [FORM, YAML]
        st.segmented_control(
            "Edit as", editors, default=FORM, required=True, key="editor", on_change=switch_editor, persist_state="session"
        )
    state["taken"] = name
    if asked != name:
        st.query_params["from"] = name
    return known[name]


def _asked(known: dict[str, Origin]) -> str | None:
    """What the address names, and makes it known; None if that is no preset and no run with a configuration of ours."""
    asked = st.query_params.get("from")
    if asked is None or asked in known:
        return asked
    run = run_if_any(asked)
    if run is None or run.kind != "engine":
        st.warning(f"There is no preset and no run {escaped(short(asked))} in your sight to start from.", icon="⚠️")
        del st.query_params["from"]
        return None
    known[asked] = run
    return asked


def start_over(base: Config | None = None) -> None:
    """Anew, from ``base`` or else from what is chosen, in the form and as YAML."""
    state["unwritten"], state["draft"] = True, EditedConfig(base)


def switch_editor() -> None:
    """Carries the edited configuration over to the editor chosen; text that cannot be read stays where it is, and one that nobody has
    changed says no more than the form did."""
    if state["editor"] == YAML:
        state["unwritten"] = True
        return
    if not is_typed():
        return
    try:
        start_over(parse(state["yaml"]))
    except NotAConfigError:
        state["editor"] = YAML


def edit_config(schema: Mapping[str, Any], chosen: Config) -> tuple[Config, Validation, ErrorSlots]:
    """The configuration, which began as ``chosen``, after the user's changes; what the API says of it, and the places for errors by field.
    NotAConfigError while the YAML cannot be read."""
    if "draft" not in state:
        start_over()
    config = state["draft"].config(schema, chosen)
    if state["editor"] == YAML:
        if state["unwritten"]:
            state["yaml"] = state[WRITTEN] = dump(validated(config, chosen)[0])
            state["unwritten"] = False
        config = parse(yaml_editor("yaml"))
        return config, client().validate(config, chosen), {}
    section = st.pills("Settings", sections(schema), default=MAIN, required=True, key="section", label_visibility="collapsed", wrap=True)
    config, check = validated(config, chosen)
    form = Form(schema, config, record_edit, {"model.path": model_names()})
    form.draw(section)
    if section != MAIN:
        st.caption("Lists, such as strategies and stop strings, are edited as YAML.")
    return config, check, form.slots


def validated(config: Config, chosen: Config) -> tuple[Config, Validation]:
    """With every default, if it is valid: a section's name may set them otherwise than the schema."""
    check = client().validate(config, chosen)
    return with_defaults(config, check.config or {}), check


def record_edit(path: str, value: Any) -> None:
    state["draft"] = state["draft"].edited(path, value)
