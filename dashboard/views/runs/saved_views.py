"""Choices of the list under names of one's own."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from dashboard.data.preferences import change, preference
from dashboard.text.escaping import escaped
from dashboard.views.runs.filters import NEWEST

VIEWS = "run-views"
MOST, LONGEST = 30, 60
NOTHING: Mapping[str, Any] = {
    "q": "",
    "state": [],
    "tag": [],
    "where": [],
    "owner": None,
    "project": None,
    "deleted": False,
    "sort": NEWEST,
    "grouped": False,
}
"""What each of the list's controls says where nothing is chosen, by its key."""
state = st.session_state
View = dict[str, Any]


def saved_views() -> None:
    with st.popover("Views", key="views", help="Search, filters and order under a name"):
        _views()


def _views() -> None:
    known = _known(preference(VIEWS))
    for view in known:
        without = partial(_without, view["name"])
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(escaped(view["name"]), key=f"view-{view['name']}", on_click=_show, args=(view["choice"],), width="stretch")
            st.button("Forget", key=f"forget-{view['name']}", type="tertiary", on_click=change, args=(VIEWS, without))
    if not known:
        st.caption("None yet: choose what the list shows, and keep it.")
    name = st.text_input("Keep what is shown now as", key="view-name", max_chars=LONGEST).strip()
    st.button("Keep", disabled=not name or len(known) >= MOST, on_click=_keep, args=(name,))


def _show(choice: Mapping[str, Any]) -> None:
    """The controls say what they said then, and the address follows them."""
    state.update(dict(NOTHING) | {key: value for key, value in choice.items() if key in NOTHING})
    state["page"] = 1


def _keep(name: str) -> None:
    choice = {key: value for key, nothing in NOTHING.items() if (value := state.get(key, nothing)) != nothing}
    change(VIEWS, lambda views: [*_without(name, views), {"name": name, "choice": choice}])


def _without(name: str, views: Sequence[Any]) -> list[View]:
    return [view for view in _known(views) if view["name"] != name]


def _known(views: Sequence[Any]) -> list[View]:
    return [view for view in views if isinstance(view, dict) and {"name", "choice"} <= view.keys()]
