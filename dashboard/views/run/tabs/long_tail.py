"""How long the responses are, and how long the few longest hold everyone up."""

from collections.abc import Sequence
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.run_config import length_limit, section
from dashboard.auth.api_client import client
from dashboard.charts import idle_share, response_lengths
from dashboard.data.run_data import DataQuery, RunData, length_steps
from dashboard.text.formats import count, last_steps
from dashboard.views.run.step_input import of_step, step_input
from dashboard.views.run.tabs.overview import length_percentiles
from dashboard.views.run.tabs.tab import Tab, training_run
from dashboard.widgets.panel import chart, empty, panel, to_come
from longtail.schemas.telemetry import Lengths

Choice = Literal["latest step", "all steps", "a step"]
CHOICES: tuple[Choice, ...] = ("latest step", "all steps", "a step")


def show(data: RunData) -> None:
    left, right = st.columns(2)
    limit = length_limit(data.run.config)
    with left, panel("Response lengths", "Most responses are short; every worker waits for the few longest.") as head:
        picked = _picked(data, head) if data.lengths else []
        if picked:
            _histogram(picked, limit)
        else:
            empty(to_come("The lengths of each step's responses will appear here.") if not data.lengths else "The run has no such step.")
    with right, panel("Longer than", "Share of the responses that are longer than so many tokens.") as head:
        if picked:
            log = head.toggle(
                "log axis", key="survival-log", help="Shows the tail: a straight line is a tail that thins out by a fixed factor."
            )
            chart(response_lengths.survival(_compared(data.lengths, picked), limit, log), f"survival-{_name(picked)}")
        else:
            empty(to_come("How many responses are how long will appear here.") if not data.lengths else "The run has no such step.")
    left, right = st.columns(2)
    with left:
        length_percentiles(data)
    with right:
        _bubble(data)


def _picked(data: RunData, head: DeltaGenerator) -> Sequence[Lengths]:
    most = length_steps(data.run)
    at_hand = last_steps(most) if data.run.step > most else "all steps"
    choice = head.segmented_control(
        "Steps",
        CHOICES,
        default=CHOICES[0],
        required=True,
        format_func=lambda each: at_hand if each == "all steps" else each,
        key=f"length-steps-{data.run.id}",
        label_visibility="collapsed",
    )
    if choice == "a step":
        step = step_input(head, f"length-step-{data.run.id}", data.lengths[-1].step)
        return of_step(data, data.lengths, step, "lengths-of-step", client().lengths)
    return data.lengths if choice == "all steps" else data.lengths[-1:]


def _histogram(picked: Sequence[Lengths], limit: int) -> None:
    responses = [length for item in picked for length in item.lengths]
    chart(response_lengths.histogram(responses, limit), f"lengths-{_name(picked)}")
    st.caption(lengths_told(picked, limit))


def lengths_told(picked: Sequence[Lengths], limit: int) -> str:
    responses, cut = sum(len(item.lengths) for item in picked), sum(item.truncated for item in picked)
    return f"{_name(picked)}: {count(responses, 'response')}, {cut:,} cut at the limit of {count(limit, 'token')}"


def _name(picked: Sequence[Lengths]) -> str:
    return f"step {picked[0].step}" if len(picked) == 1 else f"steps {picked[0].step} to {picked[-1].step}"


def _compared(known: Sequence[Lengths], picked: Sequence[Lengths]) -> dict[str, Sequence[int]]:
    """The lengths that were picked, and those of the first step at hand to hold them against."""
    return {_name(items): [length for item in items for length in item.lengths] for items in (picked, known[:1])}


def _bubble(data: RunData) -> None:
    with panel("Idle in rollout", "Share of the workers' time in rollout that is spent waiting for the longest responses."):
        workers = section(data.run.config, "cluster").get("workers", 1)
        figure = idle_share.idle_share(data.metrics, workers) if data.series("idle_seconds").steps else None
        chart(figure, "bubble", to_come("The waiting of each step will appear here."))
    if data.run.step > (most := length_steps(data.run)):
        st.caption(f"Lengths are those of the last {most} steps; any earlier step can be chosen.")


TAB = Tab("Long tail", show, DataQuery(("lengths",), ("idle_seconds", "trained_seconds", "phase/rollout")), training_run)
