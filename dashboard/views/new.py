"""Start a run: from a preset or another run, by form or YAML. The API judges at every change; what it says stands at the field."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.client import ApiError
from backend.schemas.base import FieldError
from backend.schemas.comparison import ConfigDifference
from backend.schemas.runs import Preset, Run
from dashboard.connection import answered, client, me
from dashboard.fields import Config
from dashboard.formats import plain
from dashboard.pairs import plain_twin, speculates
from dashboard.panels.costs import costs
from dashboard.panels.draft import edit, offers, origin, title
from dashboard.panels.form import Slots
from dashboard.panels.wishes import WANTED, wishes
from dashboard.panels.yaml_editor import NotAConfigError

INVALID = 422
state = st.session_state


@st.cache_data(ttl=60, scope="session", show_spinner=False)
def projects() -> dict[str, str]:
    """Ids by name."""
    return {project.name: project.id for project in client().projects(limit=200).items}


def submit(config: Config, wanted: Mapping[str, Any], parent: Run | None, with_plain: bool) -> Run:
    """A click that is repeated after a failure submits nothing twice."""
    body = json.dumps([config, wanted, parent and parent.id], sort_keys=True)
    key = hashlib.sha256((state.setdefault("nonce", uuid4().hex) + body).encode()).hexdigest()

    def send(config: Config, key: str) -> Run:
        if parent is None:
            return client().submit(config, idempotency_key=key, **wanted)
        return client().clone(parent.id, config, idempotency_key=key, **wanted)

    run = send(config, key)
    if with_plain:
        send(plain_twin(config), f"{key}-plain")
    for name in ("nonce", "draft", "notes", "priority", "needs"):
        state.pop(name, None)
    return run


def judged(config: Config, wanted: Mapping[str, Any], parent: Run | None, with_plain: bool) -> list[FieldError]:
    """Submits it, and goes to the new run's page; or the API's faults."""
    try:
        run = submit(config, wanted, parent, with_plain)
    except ApiError as error:
        if error.status != INVALID:
            raise
        return error.errors
    else:
        st.switch_page("views/run.py", query_params={"id": run.id})


def show_faults(faults: Iterable[FieldError], slots: Slots, elsewhere: DeltaGenerator) -> None:
    """Each fault under its field; those of no field in the form above it."""
    others = []
    for fault in faults:
        message = plain(WANTED.get(fault.field) or fault.message)
        slot = slots.get(fault.field) or slots.get(fault.field.partition(".")[0])
        if slot is None:
            others.append(fault)
        else:
            slot.container(key=f"fault-{fault.field.replace('.', '-')}").markdown(f":red[{message}]")
    if others:
        elsewhere.error("\n".join(f"- `{fault.field}`: {plain(fault.message)}" for fault in others), icon="⚠️")


def show_differences(found: Sequence[ConfigDifference], name: str) -> None:
    with st.container(border=True, key="differences"):
        st.markdown(f"**Changed from {plain(name)}**")
        for each in found:
            before, now = (plain(json.dumps(each.values[side], ensure_ascii=False)) for side in ("base", "config"))
            st.markdown(f"`{each.field}`  \n{before} → **{now}**")
        if not found:
            st.caption("Nothing yet.")


def launch(config: Config, parent: Run | None) -> tuple[bool, bool, dict[str, Any], Slots]:
    """Whether to start it, and its plain baseline, what else to say, and the places for faults of that."""
    with st.container(border=True):
        wanted, slots = wishes(projects(), parent)
        twin = st.toggle(
            "Also run the plain baseline",
            disabled=not speculates(config),
            key="twin",
            help="Submits the same run with speculation off: then the pages can say how much faster this one is.",
        )
        clicked = st.button("Start run", type="primary", key="start", disabled=not me().may_write, width="stretch")
    return clicked, twin and speculates(config), wanted, slots


def page() -> None:
    begun = origin()
    parent = begun if isinstance(begun, Run) else None
    st.caption(plain(begun.description) if isinstance(begun, Preset) else f"The configuration of run `{begun.id}`")
    elsewhere = st.empty()
    left, right = st.columns([3, 1], gap="medium")
    try:
        with left:
            config, check, slots = edit(offers()[0], begun.config)
    except NotAConfigError as error:
        elsewhere.error(plain(str(error)), icon="⚠️")
        return
    with right:
        clicked, twin, wanted, others = launch(config, parent)
        if check.config is not None:
            costs(check.config)
            show_differences(check.differences, title(begun))
    show_faults(judged(check.config or config, wanted, parent, twin) if clicked else check.errors, slots | others, elsewhere)


st.header("New run", anchor=False)
if not me().may_write:
    st.info("Your account may look at runs, but not start any. Ask an admin for the role editor.")
with answered():
    page()
