"""Who did what when: generating, waiting, training the drafter."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from backend.schemas.telemetry import Decoding, Span, SpeculationStep
from dashboard import answers
from dashboard.charts import timeline
from dashboard.connection import client
from dashboard.feed import SPAN_STEPS, Feed
from dashboard.formats import last_steps, percent, plain
from dashboard.pairs import speculates
from dashboard.panels.frame import chart, empty, panel
from dashboard.panels.steps import of_step, step_input
from dashboard.tabs.tab import Needs, Tab, loop

HELP = (
    "BUSY: generating. IDLE: done, waiting for the slowest. TRAINING: training the drafter meanwhile. UPDATE: inference, update, sync. "
    "The strip in a lane tells what drafts; without one decoding is plain. "
    "Symbols: the share begins with what is predicted longest, responses carried over from the step before, responses stopped early."
)
A_STEP = 0


@dataclass(frozen=True)
class Window:
    """The steps that are shown."""

    name: str
    spans: Sequence[Span]
    decoding: Sequence[Decoding]
    speculation: Sequence[SpeculationStep]


def show(feed: Feed) -> None:
    with panel("Workers", HELP) as head:
        if not feed.spans:
            empty("What each worker does will appear here after the first step.")
            return
        window = _window(feed, head)
        if not window.spans:
            empty("The run has no such step yet.")
            return
        origin = feed.run.started_at.timestamp() if feed.run.started_at else window.spans[0].start
        chart(timeline.timeline(window.spans, min(origin, window.spans[0].start), window.decoding), f"timeline-{window.name}")
        if speculates(feed.run.config):
            _harvest(feed, window)


def _window(feed: Feed, head: DeltaGenerator) -> Window:
    counts = (1, 3, 10, SPAN_STEPS, A_STEP)
    count = head.segmented_control(
        "Steps shown", counts, default=3, required=True, key="window", format_func=_last, label_visibility="collapsed"
    )
    last = max(span.step for span in feed.spans)
    if count == A_STEP:
        step, run, api = step_input(head, "timeline-step", last), feed.run.id, client()
        decoding = of_step(feed.decoding, api.decoding, run, step)
        speculation = of_step(feed.recent, api.speculation, run, step)
        return Window(f"step {step}", of_step(feed.spans, api.spans, run, step), decoding, speculation)
    first = last - (count or SPAN_STEPS)
    return Window(
        _last(count or SPAN_STEPS),
        [span for span in feed.spans if span.step > first],
        [item for item in feed.decoding if item.step > first],
        [item for item in feed.recent if first < item.step <= last],
    )


def _harvest(feed: Feed, window: Window) -> None:
    seconds = {state: sum(span.end - span.start for span in window.spans if span.state == state) for state in ("IDLE", "TRAINING")}
    idle, trained = (sum(feed.values(key)) for key in ("idle_seconds", "trained_seconds"))
    if waited := sum(seconds.values()):
        shown, whole = percent(seconds["TRAINING"] / waited), percent(trained / idle if idle else None)
        st.caption(f"{whole} of all waiting time was used to train the drafter, {shown} of what is shown.")
    for reason in answers.untrained(window.speculation):
        st.caption(plain(f"{reason}."))


def _last(steps: int) -> str:
    return "a step" if steps == A_STEP else last_steps(steps)


TAB = Tab("Timeline", show, Needs(("spans", "decoding", "recent"), ("idle_seconds", "trained_seconds")), loop)
