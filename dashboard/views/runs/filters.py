"""Which runs the list has, and in which order. The address holds it all, so that it can be kept and sent to someone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.widgets.panel import STATE_COLORS
from longtail.schemas.runs import Run

MOST, LONGEST = 8, 200
NEWEST = "newest first"
SORTS: Mapping[str, str] = {
    NEWEST: "-created",
    "oldest first": "created",
    "name, A to Z": "name",
    "name, Z to A": "-name",
    "state": "state",
    "user": "owner",
    "longest first": "-duration",
    "shortest first": "duration",
    "highest reward": "-summary.reward_recent",
    "lowest reward": "summary.reward_recent",
    "longest accept length": "-summary.accept_recent",
    "shortest accept length": "summary.accept_recent",
    "fastest steps": "summary.step_seconds_recent",
    "slowest steps": "-summary.step_seconds_recent",
}
BY_COLUMN: Mapping[str, Sequence[str]] = {
    "Name": ("name, A to Z", "name, Z to A"),
    "State": ("state",),
    "Time": ("longest first", "shortest first"),
    "Reward": ("highest reward", "lowest reward"),
    "Accept length": ("longest accept length", "shortest accept length"),
    "Time a step": ("fastest steps", "slowest steps"),
    "User": ("user",),
    "Created": (NEWEST, "oldest first"),
}
"""What clicks on a column's head ask for, in turn."""


def run_filters(seen: Iterable[Run], projects: Mapping[str, str]) -> dict[str, Any]:
    """The choice as the API's client takes it. What the runs ``seen`` have is offered; ``projects`` are ids by name."""
    shared: dict[str, Any] = {"bind": "query-params", "label_visibility": "collapsed", "on_change": _first_page}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        hint = "Search name, notes, id"
        q = st.text_input("Search", type="search", placeholder=hint, key="q", live=True, max_chars=LONGEST, width=230, **shared)
        states = st.pills("State", list(STATE_COLORS), selection_mode="multi", key="state", **shared)
        st.space("stretch")
        deleted = st.toggle("Deleted", key="deleted", bind="query-params", on_change=_first_page, help="Those that can still be restored.")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        several: dict[str, Any] = {"accept_new_options": True, "max_selections": MOST, **shared}
        tags = st.multiselect(
            "Tags", sorted({tag for run in seen for tag in run.tags}), key="tag", placeholder="Tags", width=230, **several
        )
        where = st.multiselect("Conditions", [], key="where", placeholder="Condition: config.model.path=tiny", width=320, **several)
        users = sorted({run.owner for run in seen if run.owner})
        owner = st.selectbox("User", users, None, key="owner", placeholder="User", accept_new_options=True, width=150, **shared)
        project = None
        if len(projects) > 1:
            project = st.selectbox("Project", list(projects), None, key="project", placeholder="Project", width=170, **shared)
        st.space("stretch")
        sort = st.selectbox("Sort by", list(SORTS), key="sort", width=210, **shared)
    given = {"q": q, "state": states, "tag": tags, "where": where, "owner": owner, "project": project and projects[project]}
    return {name: value for name, value in given.items() if value} | ({"deleted": True} if deleted else {}) | {"sort": SORTS[sort]}


def sort_by(column: str) -> None:
    """A click on a column's head: the next of its orders."""
    if orders := BY_COLUMN.get(column):
        now = st.session_state.get("sort")
        st.session_state["sort"] = orders[(orders.index(now) + 1) % len(orders)] if now in orders else orders[0]
        _first_page()


def sorted_head(column: str) -> str:
    """The column's head, with a mark if the list is in its order."""
    orders = BY_COLUMN.get(column, ())
    now = st.session_state.get("sort", NEWEST)
    return f"{column} {'▼▲'[orders.index(now)]}" if now in orders else column


def _first_page() -> None:
    st.session_state["page"] = 1
