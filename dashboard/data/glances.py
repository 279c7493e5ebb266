"""Runs at a glance, the API's word for the few figures that lists show of each: asked for again where a run has gone on, and of all of
them each minute, as their partners go on, too."""

import time
from collections.abc import Sequence

import streamlit as st

from dashboard.auth.api_client import client, run_if_any
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run

KEPT_SECONDS = 60
KNOWN = "glances"
"""Key of the session."""


def glances(runs: Sequence[Run]) -> dict[str, RunOverview]:
    """By run; without those that are gone."""
    minute = int(time.monotonic() // KEPT_SECONDS)
    known: dict[str, tuple[tuple[int, ...], RunOverview]] = st.session_state.setdefault(KNOWN, {})
    stand = {run.id: (run.attempt, run.step, minute) for run in runs}
    asked = [run_id for run_id, now in stand.items() if run_id not in known or known[run_id][0] != now]
    known.update({glance.run_id: (stand[glance.run_id], glance) for glance in client().glances(asked)})
    return {run.id: known[run.id][1] for run in runs if run.id in known}


def look_again(run_id: str) -> None:
    """As the run has another partner from now on."""
    st.session_state.get(KNOWN, {}).pop(run_id, None)


def partner(run: Run) -> Run | None:
    """The run to measure ``run`` by."""
    glance = glances([run]).get(run.id)
    return run_if_any(glance.partner_id) if glance and glance.partner_id else None
