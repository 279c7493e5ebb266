"""Runs side by side. The address holds the whole choice, so that it can be sent to someone."""

from collections.abc import Sequence

import streamlit as st

from backend.client import ApiError
from backend.schemas.runs import Run
from dashboard import significance
from dashboard.compared import ALWAYS, Compared
from dashboard.connection import answered, client, explain, me
from dashboard.panels import compared_charts
from dashboard.panels.compare_controls import chosen_runs, view
from dashboard.panels.compare_export import export
from dashboard.panels.comparison import configurations, headline, labels, rows
from dashboard.panels.frame import charts_ahead, panel
from dashboard.panels.tables import table

REFRESH_SECONDS = 4
LENGTH_STEPS = 100
POINTS = 300


@st.cache_data(max_entries=256, show_spinner=False)
def metric_keys(reader: str, run_id: str, attempt: int, step: int) -> list[str]:  # noqa: ARG001  (what the data depends on)
    return [series.key for series in client().metric_keys(run_id)]


@st.cache_data(max_entries=64, show_spinner=False)
def lengths(reader: str, run_id: str, attempt: int, step: int) -> list[int]:  # noqa: ARG001
    return [length for item in client().lengths(run_id, max(-1, step - LENGTH_STEPS - 1)) for length in item.lengths]


def show(chosen: Sequence[Run]) -> None:
    keys = sorted({key for run in chosen for key in metric_keys(me().token_id, run.id, run.attempt, run.step)})
    metrics, how, place = view(keys)
    ids = [run.id for run in chosen]
    comparison = client().compare(ids[0], ids[1:], [*metrics, *ALWAYS], POINTS)
    runs = [item.run for item in comparison.items]
    names = labels(runs)
    tails = {run.id: lengths(me().token_id, run.id, run.attempt, run.step) for run in runs}
    compared = Compared(comparison, names, tails, metrics, how)
    with place:
        export(compared)
    if len(runs) == 2:
        headline(comparison.items[0], comparison.items[1], names[ids[1]])
    with panel("Side by side", "Speed-ups are against the baseline, over the steps that both runs have."):
        table(rows(comparison, names), ids)
    compared_charts.curves(compared)
    compared_charts.speed(compared)
    compared_charts.lengths(compared)
    with panel("Over seeds", "Runs of one configuration with several seeds count as one row."):
        table(significance.rows(comparison.items, names))
        st.caption(significance.remark(comparison.items))
    with panel("Configuration") as head:
        only = head.toggle("Only differences", True, key="differences", bind="query-params")
        found = configurations(comparison, names, only)
        if found:
            table(found)
        else:
            st.caption("The runs have the same configuration.")


def follow(chosen: Sequence[Run]) -> None:
    try:
        show(chosen)
    except ApiError as error:
        explain(error)


st.header("Compare", anchor=False)
with answered(), charts_ahead():
    chosen = chosen_runs()
    if len(chosen) < 2:
        st.info("Choose two runs or more. The first is the baseline that the others are measured by.")
    else:
        live = any(not run.finished for run in chosen)
        st.fragment(follow, run_every=REFRESH_SECONDS if live else None)(chosen)
