"""The charts of the compare page."""

import streamlit as st

from dashboard.charts.comparison_curves import metric_title
from dashboard.text.escaping import escaped
from dashboard.text.metric_meanings import meaning
from dashboard.views.compare.figures import ComparisonFigures
from dashboard.widgets.one_of import one_of
from dashboard.widgets.panel import chart, empty, panel

LONGER, BY_LENGTH = "longer than", "by length"
TAILS = "Speculation is lossless: the same model has the same distribution with and without it. Of the latest 100 steps."
PHASES = "A mean step, over the steps that all these runs have. Without evaluation, which not every step has."
AMDAHL = (
    "s: rollout share of the baseline's step. A run below the line has lost time outside of the rollout, one above it has gained some. "
    "The dotted line is the most that any rollout speed-up can bring."
)


def metric_help(key: str) -> str:
    """Its key, which is what the API and the other tabs call it, and what it is."""
    return " ".join(filter(None, (f"The metric {escaped(key)}.", meaning(key))))


def curves(figures: ComparisonFigures) -> None:
    """Two in a row."""
    drawn = figures.curves()
    if figures.options.over_time and figures.runs_without_times():
        names = ", ".join(map(escaped, figures.runs_without_times()))
        st.caption(f"Not on an axis of time, as they report no step_seconds: {names}")
    for index, key in enumerate(reported := figures.reported()):
        if index % 2 == 0:
            columns = st.columns(2)
        with columns[index % 2], panel(escaped(metric_title(key)), metric_help(key)):
            missing = escaped(figures.not_measured(key))
            chart(drawn.get(key), f"curve-{key}", missing)
            if missing and key in drawn:
                st.caption(missing)
    if not reported:
        empty("None of the runs has reported a metric that is chosen above.")


def speed(figures: ComparisonFigures) -> None:
    left, right = st.columns(2)
    with left, panel("Time per phase", PHASES):
        chart(figures.phases(), "phases", "There is no step of which all runs have measured the phases.")
    with right, panel("What a faster rollout brings", AMDAHL):
        missing = "No run that does the baseline's work has a speed-up in the rollout and end to end."
        chart(figures.amdahl(), "amdahl", missing)


def lengths(figures: ComparisonFigures) -> None:
    with panel("Response lengths", TAILS) as head:
        shape = one_of("Share of responses", (LONGER, BY_LENGTH), "lengths", head, label_visibility="collapsed")
        chart(figures.response_lengths(shape == BY_LENGTH), "tails", "None of the runs has reported the lengths of its responses.")
