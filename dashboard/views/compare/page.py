"""Runs side by side. The address holds the whole choice, so that it can be sent to someone."""

from collections.abc import Sequence

import streamlit as st

from dashboard.analysis.comparability import machines
from dashboard.auth.api_client import client, me
from dashboard.data.config_schema import whole_comparison
from dashboard.text.escaping import escaped, visible
from dashboard.text.formats import short
from dashboard.text.natural_order import natural_order
from dashboard.text.run_labels import run_labels
from dashboard.views.compare import chart_panels, seed_table
from dashboard.views.compare.export_menu import export_menu
from dashboard.views.compare.figures import ALWAYS, ComparisonFigures
from dashboard.views.compare.metric_picker import chosen_metrics
from dashboard.views.compare.run_picker import chosen_runs, to_choose
from dashboard.views.compare.settings_panels import settings_panels
from dashboard.views.compare.speedup_cards import speedup_cards, unmeasured_runs
from dashboard.views.compare.tables import config_rows, run_rows
from dashboard.widgets.api_errors import answered, explained
from dashboard.widgets.panel import charts_ahead, panel
from dashboard.widgets.table import table
from longtail.schemas.runs import Run

REFRESH_SECONDS = 4
SPEEDUPS = (
    "Speed-ups are against the baseline, over the steps that both runs have, and only for runs that do the same work: the same model, "
    "task, algorithm, limits and seed. They may differ in speculation, drafter, tuner, scheduling, engine, machine and number of steps."
)
LENGTH_STEPS = 100
POINTS = 300


@st.cache_data(max_entries=256, show_spinner=False)
def metric_keys(reader: str, run_id: str, attempt: int, step: int) -> list[str]:  # noqa: ARG001  (what the data depends on)
    return [series.key for series in client().metric_keys(run_id)]


@st.cache_data(max_entries=64, show_spinner=False)
def lengths(reader: str, run_id: str, attempt: int, step: int) -> list[int]:  # noqa: ARG001
    return [length for item in client().lengths(run_id, max(-1, step - LENGTH_STEPS - 1)) for length in item.lengths]


def live(runs: Sequence[Run]) -> bool:
    return any(not run.finished for run in runs)


@explained()
def show(chosen: list[Run]) -> None:
    """``chosen``: the runs as they were at the last look, and after this one as they are now."""
    keys = sorted({key for run in chosen for key in metric_keys(me().token_id, run.id, run.attempt, run.step)}, key=natural_order)
    metrics, how, by_group, place = chosen_metrics(keys)
    ids = [run.id for run in chosen]
    comparison = whole_comparison(client().compare(ids[0], ids[1:], [*metrics, *ALWAYS], POINTS))
    runs = [item.run for item in comparison.items]
    names = run_labels(runs)
    was_live, chosen[:] = live(chosen), runs
    tails = {run.id: lengths(me().token_id, run.id, run.attempt, run.step) for run in runs}
    figures = ComparisonFigures(comparison, names, tails, metrics, how, by_group)
    with place:
        export_menu(figures)
    if len(runs) == 2:
        speedup_cards(comparison.items[0], comparison.items[1], names[ids[1]], comparison.config_diff)
    else:
        unmeasured_runs(comparison, names)
    with panel("Side by side", SPEEDUPS):
        table(run_rows(comparison, names), ids)
        st.caption(escaped(machines(comparison.items, names)))
    chart_panels.curves(figures)
    chart_panels.speed(figures)
    chart_panels.lengths(figures)
    settings_panels(figures)
    with panel("Over seeds", "Runs that differ in name and seed only are one row, over the steps that all runs have that have any."):
        table(seed_table.rows(comparison.items, names))
        st.caption(seed_table.remark(comparison.items))
    with panel("Configuration") as head:
        only = head.toggle("Only differences", True, key="differences", bind="query-params")
        found = config_rows(comparison, names, only)
        if found:
            table(found)
        else:
            st.caption("The runs have the same configuration.")
    if was_live and not live(runs):
        st.rerun()  # with the metrics of the last step, and without looking again


st.header("Compare", anchor=False)
with answered(), charts_ahead():
    chosen = chosen_runs()
    if chosen:
        st.set_page_config(page_title=f"{visible(short(' / '.join(run.name for run in chosen), 120))} · Compare · Longtail")
    if len(chosen) < 2:
        st.info(to_choose(chosen))
    else:
        st.fragment(show, run_every=REFRESH_SECONDS if live(chosen) else None)(chosen)
