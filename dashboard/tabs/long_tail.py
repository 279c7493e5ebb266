"""How long the responses are, and how long the few longest hold everyone up."""

from collections.abc import Sequence
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.schemas.telemetry import Lengths
from dashboard.charts import idle, lengths
from dashboard.connection import client
from dashboard.feed import LENGTH_STEPS, Feed
from dashboard.pairs import length_limit, section
from dashboard.panels.frame import chart, empty, panel
from dashboard.panels.steps import of_step, step_input
from dashboard.tabs.overview import length_percentiles
from dashboard.tabs.tab import Needs, Tab, loop

Choice = Literal["latest step", "all steps", "a step"]
CHOICES: tuple[Choice, ...] = ("latest step", "all steps", "a step")


def show(feed: Feed) -> None:
    left, right = st.columns(2)
    limit = length_limit(feed.run.config)
    with left, panel("Response lengths", "Most responses are short; every worker waits for the few longest.") as head:
        picked = _picked(feed, head) if feed.lengths else []
        if picked:
            _histogram(picked, limit)
        else:
            empty("The lengths of each step's responses will appear here." if not feed.lengths else "The run has no such step yet.")
    with right, panel("Longer than", "Share of the responses that are longer than so many tokens.") as head:
        if picked:
            log = head.toggle(
                "log axis", key="survival-log", help="Shows the tail: a straight line is a tail that thins out by a fixed factor."
            )
            chart(lengths.survival(_compared(feed.lengths, picked), limit, log), f"survival-{_name(picked)}")
        else:
            empty("How many responses are how long will appear here.")
    left, right = st.columns(2)
    with left:
        length_percentiles(feed)
    with right:
        _bubble(feed)


def _picked(feed: Feed, head: DeltaGenerator) -> Sequence[Lengths]:
    choice = head.segmented_control("Steps", CHOICES, default=CHOICES[0], required=True, key="length-steps", label_visibility="collapsed")
    if choice == "a step":
        step = step_input(head, "length-step", feed.lengths[-1].step)
        return of_step(feed.lengths, client().lengths, feed.run.id, step)
    return feed.lengths if choice == "all steps" else feed.lengths[-1:]


def _histogram(picked: Sequence[Lengths], limit: int) -> None:
    responses = [length for item in picked for length in item.lengths]
    cut = sum(item.truncated for item in picked)
    chart(lengths.histogram(responses, limit), f"lengths-{_name(picked)}")
    st.caption(f"{_name(picked)}: {len(responses):,} responses, {cut:,} cut at the limit of {limit:,} tokens")


def _name(picked: Sequence[Lengths]) -> str:
    return f"step {picked[0].step}" if len(picked) == 1 else f"steps {picked[0].step} to {picked[-1].step}"


def _compared(known: Sequence[Lengths], picked: Sequence[Lengths]) -> dict[str, Sequence[int]]:
    """The lengths that were picked, and those of the first step at hand to hold them against."""
    return {_name(items): [length for item in items for length in item.lengths] for items in (picked, known[:1])}


def _bubble(feed: Feed) -> None:
    with panel("Idle in rollout", "Share of the workers' time in rollout that is spent waiting for the longest responses."):
        if feed.series("idle_seconds").steps:
            workers = section(feed.run.config, "cluster").get("workers", 1)
            chart(idle.bubble(feed.metrics, workers), "bubble")
        else:
            empty("The waiting of each step will appear here.")
    if feed.run.step > LENGTH_STEPS:
        st.caption(f"Lengths are those of the last {LENGTH_STEPS} steps; any earlier step can be chosen.")


TAB = Tab("Long tail", show, Needs(("lengths",), ("idle_seconds", "trained_seconds", "phase/rollout")), loop)
