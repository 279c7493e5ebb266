"""Runs side by side. The address holds the choice (``?runs=baseline,other``), so that it can be sent to someone."""

import streamlit as st

from backend.client import ApiError
from backend.schemas.runs import Run
from backend.schemas.telemetry import Lengths, Series
from dashboard.charts import curves
from dashboard.charts.lengths import distributions
from dashboard.connection import answered, client, explain
from dashboard.feed import LENGTH_STEPS
from dashboard.pairs import length_limit
from dashboard.panels.comparison import differences, headline, labels, table
from dashboard.panels.frame import chart, panel

REFRESH_SECONDS = 4


@st.cache_data(max_entries=64, show_spinner=False)
def step_seconds(run_id: str, attempt: int, step: int) -> Series:  # noqa: ARG001  (attempt and step are what the data depends on)
    return client().metrics(run_id, ["step_seconds"]).series.get("step_seconds", Series())


@st.cache_data(max_entries=64, show_spinner=False)
def lengths(run_id: str, attempt: int, step: int) -> list[Lengths]:  # noqa: ARG001
    return client().lengths(run_id, max(-1, step - LENGTH_STEPS))


def choose(runs: list[Run]) -> list[str]:
    """The ids of the chosen runs, the baseline first; the address follows the choice."""
    wanted = [run_id for run_id in st.query_params.get("runs", "").split(",") if run_id]
    listed = {run.id: run for run in runs} | {run_id: client().run(run_id) for run_id in wanted if run_id not in {run.id for run in runs}}
    names = labels(list(listed.values()))
    chosen = st.multiselect(
        "Runs; the first is the baseline",
        list(listed),
        wanted,
        format_func=lambda run_id: names[run_id],
        max_selections=6,
        placeholder="Choose two runs or more",
    )
    st.query_params["runs"] = ",".join(chosen)
    return chosen


def show(chosen: list[str]) -> None:
    try:
        comparison = client().compare(chosen[0], chosen[1:])
        runs = [item.run for item in comparison.items]
        seconds = {run.id: step_seconds(run.id, run.attempt, run.step) for run in runs}
        tails = {run.id: lengths(run.id, run.attempt, run.step) for run in runs}
    except ApiError as error:
        explain(error)
        return
    names = labels(runs)
    baseline, other = comparison.items[0], comparison.items[1]
    headline(baseline, other, names[other.run.id])
    with panel("Side by side", "Speed-ups are against the baseline, over the steps that both runs have."):
        table(comparison, names)
    left, right = st.columns(2)
    with left, panel("Reward", "Mean reward of each step, and its mean over 5 steps."):
        chart(curves.rewards({names[item.run.id]: item.reward for item in comparison.items}), "reward")
    with right, panel("Time per step"):
        chart(curves.step_times({names[run_id]: series for run_id, series in seconds.items()}), "seconds")
    left, right = st.columns(2)
    with left, panel("Response lengths", "Speculation is lossless: the same model has the same distribution with and without it."):
        limit = max(length_limit(run.config) for run in runs)
        chart(
            distributions({names[run_id]: [n for item in items for n in item.lengths] for run_id, items in tails.items()}, limit), "lengths"
        )
    with right, panel("Configuration differences", "Only the fields that are not the same in all runs."):
        differences(comparison.config_diff, names)


st.header("Compare", anchor=False)
with answered():
    chosen = choose(client().runs(limit=100).items)
    if len(chosen) < 2:
        st.info("Choose two runs or more. The first is the baseline that the others are measured by.", icon="⚖️")
    else:
        live = any(not client().run(run_id).finished for run_id in chosen)
        st.fragment(show, run_every=REFRESH_SECONDS if live else None)(chosen)
