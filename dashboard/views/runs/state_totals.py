"""How many runs are in each state: of all that the filter finds, whatever states and page the list shows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client, me
from dashboard.text.formats import count
from dashboard.widgets.panel import STATE_COLORS
from longtail.schemas.runs import Run, RunState

KEPT_SECONDS = 10


def state_totals(choice: Mapping[str, Any], shown: Sequence[Run]) -> None:
    """One line. It is never behind the list: where one of the runs ``shown`` is new, gone or in another state, it is asked for anew."""
    wanted = {name: value for name, value in choice.items() if name not in ("state", "sort")}
    found = totals(me().token_id, json.dumps(wanted, sort_keys=True), " ".join(f"{run.id} {run.state}" for run in shown))
    told = [f"{found[state]:,} {state}" for state in STATE_COLORS if state in found]
    st.caption(f"{count(sum(found.values()), 'run')}: {', '.join(told)}" if told else "No runs.", width="stretch")


@st.cache_data(ttl=KEPT_SECONDS, max_entries=64, show_spinner=False)
def totals(reader: str, choice: str, shown: str) -> dict[RunState, int]:  # noqa: ARG001  (whose sight it is, and what they see)
    return client().run_totals(**json.loads(choice)).states
