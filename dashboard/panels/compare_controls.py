"""What is compared and how it is drawn. The address of the page holds every choice."""

import re
from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.schemas.runs import Run
from dashboard.charts.compared import View
from dashboard.connection import client, run_if_any
from dashboard.formats import plain, short
from dashboard.panels.comparison import labels

MOST_RUNS, MOST_METRICS = 10, 8
OFFERED = 100
ID = re.compile("[0-9a-f]{16}")
FIRST_METRICS = ("reward_mean", "step_seconds", "accept_length", "response_tokens")
STEPS, TIME = "steps", "time"
WINDOWS = (1, 3, 5, 9, 15, 25, 51)
state = st.session_state


def chosen_runs() -> list[Run]:
    """The chosen runs, the baseline first; the address (``?runs=baseline,other``) follows the choice, and the choice the address."""
    address = st.query_params.get("runs", "")
    wanted = list(dict.fromkeys(run_id for run_id in address.split(",") if run_id))
    if "chosen" not in state or state.get("compared") != address:
        state["chosen"] = wanted[:MOST_RUNS]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        query = st.text_input("Find", type="search", placeholder="name, notes or id", key="find", live=True, width=220)
        offers = _offers(query, dict.fromkeys([*wanted[:MOST_RUNS], *state["chosen"]]))
        if not offers.keys() >= set(state["chosen"]):
            state["chosen"] = [run_id for run_id in state["chosen"] if run_id in offers]
        names = labels(list(offers.values()))
        chosen = st.multiselect(
            "Runs; the first is the baseline",
            list(offers),
            format_func=names.__getitem__,
            key="chosen",
            max_selections=MOST_RUNS,
            placeholder="Choose two runs or more",
            width="stretch",
        )
    _explain(wanted, offers)
    state["compared"] = st.query_params["runs"] = ",".join(chosen)
    return [offers[run_id] for run_id in chosen]


def _explain(wanted: Sequence[str], offers: Mapping[str, Run]) -> None:
    """What of the address is left out."""
    unknown = [plain(short(run_id)) for run_id in wanted[:MOST_RUNS] if run_id not in offers]
    if unknown:
        st.warning(f"Left out, as there is no such run in your sight: {', '.join(unknown)}", icon="⚠️")
    if len(wanted) > MOST_RUNS:
        st.warning(f"The address names {len(wanted)} runs: these are the first {MOST_RUNS}, which is the most.", icon="⚠️")


def _offers(query: str, wanted: Mapping[str, object]) -> dict[str, Run]:
    """The chosen runs, as far as they are there, and the newest that match, by id."""
    found = {run.id: run for run in client().runs(q=query or None, limit=OFFERED).items}
    missing = [run_id for run_id in wanted if run_id not in found and ID.fullmatch(run_id)]
    at_hand = found | ({run.id: run for run in client().runs(run=missing, limit=MOST_RUNS).items} if missing else {})
    return {run_id: run for run_id in wanted if (run := at_hand.get(run_id) or run_if_any(run_id)) is not None} | found


def view(keys: Sequence[str]) -> tuple[list[str], View, DeltaGenerator]:
    """The metrics to draw, how, and the place for a button beside them."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = [key for key in FIRST_METRICS if key in keys] or list(keys[: len(FIRST_METRICS)])
        metrics = st.multiselect("Metrics", keys, first, key="metric", bind="query-params", max_selections=MOST_METRICS, width=620)
        over = st.segmented_control("Over", [STEPS, TIME], default=STEPS, required=True, key="over", bind="query-params")
        window = st.selectbox("Smoothing (steps)", WINDOWS, 2, key="smoothing", bind="query-params", width=150)
        log_x = st.toggle("Log x", key="logx", bind="query-params")
        log_y = st.toggle("Log y", key="logy", bind="query-params", help="What is 0 or less has no place on a logarithmic axis.")
        st.space("stretch")
        return metrics, View(over == TIME, window, log_x, log_y), st.container(width="content")
