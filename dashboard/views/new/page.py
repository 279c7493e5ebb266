"""Start a run: from a preset or another run, by form or YAML. The API judges at every change; what it says stands at the field."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import page_files
from dashboard.analysis.run_config import plain_baseline, speculates, trains_drafter_only
from dashboard.auth.api_client import all_projects, client, me
from dashboard.data.config_schema import config_schema
from dashboard.data.submission_key import submission_key
from dashboard.text.escaping import escaped
from dashboard.views.new.config_editor import choose_origin, edit_config, origin_title
from dashboard.views.new.config_form import ErrorSlots
from dashboard.views.new.cost_estimate import cost_estimate
from dashboard.views.new.draft_store import NEW, SUBMITTED, draft_is_back, drop_draft, keep_draft
from dashboard.views.new.fault_summary import fault_summary
from dashboard.views.new.schema_fields import Config
from dashboard.views.new.submission_options import EXPECTED, submission_options
from dashboard.views.new.yaml_editor import NotAConfigError
from dashboard.widgets.api_errors import answered
from dashboard.widgets.page_switch import switch_page
from longtail import ApiError
from longtail.schemas.base import FieldError
from longtail.schemas.comparison import ConfigDifference
from longtail.schemas.runs import Preset, Run

INVALID = 422
state = st.session_state


@st.cache_data(ttl=60, scope="session", show_spinner=False)
def projects() -> dict[str, str]:
    """Ids by name."""
    return {project.name: project.id for project in all_projects()}


def submit(config: Config, options: Mapping[str, Any], parent: Run | None, with_plain: bool) -> Run:
    """A click that is repeated after a failure submits nothing twice."""
    key = submission_key(NEW, config, options, parent and parent.id)

    def send(config: Config, key: str) -> Run:
        if parent is None:
            return client().submit(config, idempotency_key=key, **options)
        return client().clone(parent.id, config, idempotency_key=key, **options)

    run = send(config, key)
    if with_plain:
        send(plain_baseline(config), f"{key}-plain")
    drop_draft()
    state[SUBMITTED] = True
    return run


def submitted_or_errors(config: Config, options: Mapping[str, Any], parent: Run | None, with_plain: bool) -> list[FieldError]:
    """Submits it, and goes to the new run's page; or the API's errors."""
    try:
        run = submit(config, options, parent, with_plain)
    except ApiError as error:
        if error.status != INVALID:
            raise
        return error.errors
    else:
        switch_page(page_files.RUN, {"id": run.id})


def show_errors(errors: Iterable[FieldError], error_slots: ErrorSlots, elsewhere: DeltaGenerator) -> None:
    """Each error under its field; those of no field in the form above it."""
    others = []
    for error in errors:
        message = escaped(EXPECTED.get(error.field) or error.message)
        slot = error_slots.get(error.field) or error_slots.get(error.field.partition(".")[0])
        if slot is None:
            others.append(error)
        else:
            slot.container(key=f"fault-{error.field.replace('.', '-')}").markdown(f":red[{message}]")
    if others:
        elsewhere.error("\n".join(f"- `{error.field}`: {escaped(error.message)}" for error in others), icon="⚠️")


def show_differences(found: Sequence[ConfigDifference], name: str) -> None:
    with st.container(border=True, key="differences"):
        st.markdown(f"**Changed from {escaped(name)}**")
        for each in found:
            before, now = (escaped(json.dumps(each.values[side], ensure_ascii=False)) for side in ("base", "config"))
            st.markdown(f"`{each.field}`  \n{before} → **{now}**")
        if not found:
            st.caption("Nothing yet.")


def start_panel(config: Config, parent: Run | None) -> tuple[bool, bool, dict[str, Any], ErrorSlots, DeltaGenerator]:
    """Whether to start it, and its plain baseline, what else to say, the places for errors of that, and the one at the button."""
    has_baseline = speculates(config) and not trains_drafter_only(config)
    with st.container(border=True):
        options, error_slots = submission_options(projects(), parent)
        with_plain = st.toggle(
            "Also run the plain baseline",
            disabled=not has_baseline,
            key="twin",
            persist_state="session",
            help="Submits the same run with speculation off: then the pages can say how much faster this one is.",
        )
        fault = st.empty()
        clicked = st.button("Start run", type="primary", key="start", disabled=not me().may_write, width="stretch")
    return clicked, with_plain and has_baseline, options, error_slots, fault


def page() -> None:
    origin = choose_origin()
    parent = origin if isinstance(origin, Run) else None
    st.caption(escaped(origin.description) if isinstance(origin, Preset) else f"The configuration of run `{origin.id}`")
    key = origin.id if isinstance(origin, Run) else origin.name
    draft_is_back(key)
    keep_draft(key, ", ".join(parent.tags) if parent else "")
    elsewhere = st.empty()
    left, right = st.columns([3, 1], gap="medium")
    try:
        with left:
            config, check, error_slots = edit_config(config_schema(), origin.config)
    except NotAConfigError as error:
        elsewhere.error(escaped(str(error)), icon="⚠️")
        return
    with right:
        clicked, with_plain, options, others, at_button = start_panel(config, parent)
        if check.config is not None:
            cost_estimate(check.config)
            show_differences(check.differences, origin_title(origin))
    errors = submitted_or_errors(check.config or config, options, parent, with_plain) if clicked else check.errors
    show_errors(errors, error_slots | others, elsewhere)
    if errors:
        at_button.container(key="fault-summary").markdown(fault_summary(errors))


st.header("New run", anchor=False)
if not me().may_write:
    st.info("Your account may look at runs, but not start any. Ask an admin for the role editor.")
else:
    with answered():
        page()
