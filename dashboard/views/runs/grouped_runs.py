"""All runs of a filter as groups of seeds: a group may have its runs on several pages."""

import json
from collections.abc import Sequence
from time import monotonic
from typing import Any

import streamlit as st

from dashboard.analysis.run_groups import RunGroup, run_groups
from dashboard.auth.api_client import client
from dashboard.data.config_schema import whole_runs
from dashboard.views.runs.pagination import FetchPage, first_runs
from longtail.schemas.runs import Run, RunPage

GROUPED = "grouped-runs"
"""Where the session keeps them."""
MOST, LONGEST_PAGE = 1000, 200
SECONDS_PER_PAGE = 2


class GroupedRuns:
    """The first MOST of the runs that ``choice`` is of. The more pages they take, the longer they are kept: an open page costs the API one
    request in SECONDS_PER_PAGE."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.runs: Sequence[Run] = ()
        self.groups: Sequence[RunGroup] = ()
        self.has_more = False
        self._kept_until = float("-inf")

    def refresh(self, ask: FetchPage, now: float) -> None:
        """Asks anew if that is due at ``now`` (seconds)."""
        if now < self._kept_until:
            return
        self.runs, pages, self.has_more = first_runs(ask, MOST)
        self.groups = run_groups(self.runs)
        self._kept_until = now + pages * SECONDS_PER_PAGE


def grouped_runs(choice: dict[str, Any]) -> GroupedRuns:
    """As the session keeps them. ``choice``: as the API's client takes it."""
    state, asked = st.session_state, json.dumps(choice, sort_keys=True)
    if GROUPED not in state or state[GROUPED].choice != asked:
        state[GROUPED] = GroupedRuns(asked)

    def ask(cursor: str | None) -> RunPage:
        page = client().runs(limit=LONGEST_PAGE, cursor=cursor, **choice)
        return page.model_copy(update={"items": whole_runs(page.items)})

    found: GroupedRuns = state[GROUPED]
    found.refresh(ask, monotonic())
    return found
