"""Which metrics are compared, and how their curves are drawn. The address of the page holds every choice."""

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.comparison_curves import CurveOptions
from dashboard.widgets.one_of import one_of

MOST_METRICS = 8
FIRST_METRICS = ("reward_mean", "step_seconds", "accept_length", "response_tokens")
STEPS, TIME = "steps", "time"
WINDOWS = (1, 3, 5, 9, 15, 25, 51)


def chosen_metrics(keys: Sequence[str]) -> tuple[list[str], CurveOptions, bool, DeltaGenerator]:
    """The metrics to draw, how, whether by groups of seeds, and the place for a button beside them."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = [key for key in FIRST_METRICS if key in keys] or list(keys[: len(FIRST_METRICS)])
        metrics = st.multiselect("Metrics", keys, first, key="metric", bind="query-params", max_selections=MOST_METRICS, width=620)
        over = one_of("Over", (STEPS, TIME), "over")
        window = st.selectbox("Smoothing (steps)", WINDOWS, 2, key="smoothing", bind="query-params", width=150)
        log_x = st.toggle("Log x", key="logx", bind="query-params")
        log_y = st.toggle("Log y", key="logy", bind="query-params", help="What is 0 or less has no place on a logarithmic axis.")
        by_group = st.toggle(
            "Mean over seeds", key="bygroup", bind="query-params", help="A line for each group of seeds, over steps, and its range."
        )
        st.space("stretch")
        return metrics, CurveOptions(over == TIME, window, log_x, log_y), by_group, st.container(width="content")
