"""Start a run: from a preset, by form or YAML. The API judges, at every change; what it says stands at the field."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.client import ApiError
from backend.schemas.base import FieldError
from backend.schemas.runs import Preset, Run
from dashboard.connection import answered, client, me
from dashboard.fields import Config
from dashboard.formats import plain
from dashboard.pairs import plain_twin, speculates
from dashboard.panels.form import form
from dashboard.panels.yaml_editor import NotAConfigError, dump, editor, parse

FORM, YAML = "Form", "YAML"
INVALID = 422
state = st.session_state


@st.cache_data(ttl=60, show_spinner=False)
def offers() -> tuple[dict[str, Any], list[Preset]]:
    return client().schema(), client().presets()


def start_from(config: Config) -> None:
    """Makes ``config`` the draft, in the form and as YAML."""
    state["draft"], state["edition"], state["yaml"] = config, state.get("edition", 0) + 1, dump(config)


def take_preset() -> None:
    start_from(next(preset.config for preset in offers()[1] if preset.name == state["preset"]))


def switch_editor() -> None:
    """Carries the draft over to the editor chosen; text that cannot be read stays where it is."""
    if state["editor"] == YAML:
        state["yaml"] = dump(state["draft"])
        return
    try:
        start_from(parse(state["yaml"]))
    except NotAConfigError:
        state["editor"] = YAML


def edit(schema: Mapping[str, Any]) -> tuple[Config, dict[str, DeltaGenerator]]:
    """The draft after the user's changes, and the places for faults by field; NotAConfigError while the YAML cannot be read."""
    if state["editor"] == YAML:
        return parse(editor("yaml")), {}
    state["draft"], slots = form(schema, state["draft"], state["edition"])
    return state["draft"], slots


def submit(config: Config, tags: list[str], with_plain: bool) -> Run:
    """A click that is repeated after a failure submits nothing twice."""
    body = json.dumps([config, tags], sort_keys=True)
    key = hashlib.sha256((state.setdefault("nonce", uuid4().hex) + body).encode()).hexdigest()
    run = client().submit(config, tags, key)
    if with_plain:
        client().submit(plain_twin(config), tags, f"{key}-plain")
    del state["nonce"], state["draft"]
    return run


def judged(config: Config, tags: list[str], with_plain: bool, clicked: bool) -> list[FieldError]:
    """The API's faults. An accepted submission goes to the new run's page."""
    if not clicked:
        return client().validate(config).errors
    try:
        run = submit(config, tags, with_plain)
    except ApiError as error:
        if error.status != INVALID:
            raise
        return error.errors
    else:
        st.switch_page("views/run.py", query_params={"id": run.id})


def show_faults(faults: Iterable[FieldError], slots: Mapping[str, DeltaGenerator], elsewhere: DeltaGenerator) -> None:
    """Each fault under its field; those of no field in the form above it."""
    for fault in faults:
        if fault.field in slots:
            place = slots[fault.field].container(key=f"fault-{fault.field.replace('.', '-')}")
            place.markdown(f":red[{plain(fault.message)}]")
    others = [fault for fault in faults if fault.field not in slots]
    if others:
        elsewhere.error("\n".join(f"- `{fault.field}`: {plain(fault.message)}" for fault in others), icon="⚠️")


def page() -> None:
    schema, presets = offers()
    if "draft" not in state:
        start_from(presets[0].config)
    titles = {preset.name: preset for preset in presets}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Start from",
            titles,
            format_func=lambda name: titles[name].title,
            key="preset",
            on_change=take_preset,
            persist_state="session",
            width=360,
        )
        st.segmented_control(
            "Edit as", [FORM, YAML], default=FORM, required=True, key="editor", on_change=switch_editor, persist_state="session"
        )
    st.caption(plain(titles[state["preset"]].description))
    elsewhere = st.empty()
    try:
        config, slots = edit(schema)
    except NotAConfigError as error:
        elsewhere.error(plain(str(error)), icon="⚠️")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tags = st.text_input("Tags", placeholder="comma, separated", key="tags", width=260)
        twin = st.toggle(
            "Also run the plain baseline",
            disabled=not speculates(config),
            key="twin",
            help="Submits the same run with speculation off: then the pages can say how much faster this one is.",
        )
        st.space("stretch")
        clicked = st.button("Start run", type="primary", key="start", disabled=not me().may_write)
    labels = [tag.strip() for tag in tags.split(",") if tag.strip()]
    show_faults(judged(config, labels, twin and speculates(config), clicked), slots, elsewhere)


st.header("New run", anchor=False)
if not me().may_write:
    st.info("Your account may look at runs, but not start any. Ask an admin for the role editor.", icon="👀")
with answered():
    page()
