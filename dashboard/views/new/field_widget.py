"""The widget of a field of a run's configuration."""

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import Any

import streamlit as st

from dashboard.text.escaping import escaped
from dashboard.views.new.schema_fields import FormField

LARGEST = 2**53 - 1
"""The largest integer that a browser can hold."""
state = st.session_state


def field_widget(spec: FormField, label: str, present: Any, on_edit: Callable[[str, Any], None]) -> None:
    """Draws it with the value ``present``. ``on_edit`` hears of each change by the user, with the field's path, before the page is drawn:
    also of one that was on its way while the page was drawn without it. What it cannot hold stays as it is until it is changed."""
    help = escaped(spec.help) if spec.help else None
    if spec.kind == "choice":
        options = spec.options if present in spec.options else (*spec.options, present)
        held = _held(spec, present, on_edit)
        st.selectbox(label, options, options.index(present), help=help, accept_new_options=spec.open, **held)
    elif spec.kind == "boolean" and isinstance(present, bool):
        st.toggle(label, present, help=help, **_held(spec, present, on_edit))
    elif spec.kind == "integer" and _fits(spec, present, int):
        st.number_input(label, value=present, step=1, help=help, **_held(spec, present, on_edit))
    elif spec.kind == "number" and _fits(spec, present, int | float):
        value = None if present is None else float(present)
        st.number_input(label, value=value, step=_step(spec.default), format="%g", help=help, **_held(spec, value, on_edit))
    else:
        text = "" if present is None else str(present)
        st.text_input(label, text, help=help, live=True, **_held(spec, text, on_edit))


def offered_names(spec: FormField, names: Sequence[str], present: Any, on_edit: Callable[[str, Any], None]) -> None:
    """Draws names that can be clicked in place of typing the field's value."""

    def take(path: str, name: str | None) -> None:
        if name is not None:
            on_edit(path, name)

    chosen = present if present in names else None
    held = _held(spec, chosen, take, "offered-")
    st.pills("Known", names, default=chosen, label_visibility="collapsed", wrap=True, **held)


def _held(spec: FormField, shown: Any, on_edit: Callable[[str, Any], None], kind: str = "") -> dict[str, Any]:
    """What a widget that shows this value needs to be known again when the page is drawn anew: then it keeps what is being typed. Where
    the value has changed by other means than the widget, another takes its place."""
    name = kind + spec.path
    versions: dict[str, int] = state.setdefault("versions", {})
    version = versions.setdefault(name, 0)
    if state.get(f"{name}-{version}", shown) != shown:
        versions[name] = version = version + 1
    return {"key": f"{name}-{version}", "on_change": _heard, "args": (spec, name, version, shown, on_edit)}


def _heard(spec: FormField, name: str, version: int, shown: Any, on_edit: Callable[[str, Any], None]) -> None:
    """A browser that has not drawn the page anew yet says the old values of widgets that are gone; those are no changes."""
    value = state[f"{name}-{version}"]
    if value != shown or version == state["versions"][name]:
        on_edit(spec.path, None if value == "" and spec.nullable else value)


def _fits(spec: FormField, before: Any, kind: Any) -> bool:
    if before is None:
        return spec.nullable
    return isinstance(before, kind) and not isinstance(before, bool) and abs(before) <= LARGEST


def _step(default: Any) -> float:
    """A tenth of the default's magnitude or less: 2e-4 moves by 1e-5."""
    return float(10.0 ** floor(log10(default or 1.0) - 0.5))
