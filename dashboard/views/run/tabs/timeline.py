"""Who did what when: generating, waiting, training the drafter."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.drafter_training import untrained_reasons
from dashboard.analysis.run_config import speculates
from dashboard.auth.api_client import client
from dashboard.charts import worker_timeline
from dashboard.data.run_data import SPAN_STEPS, DataQuery, RunData
from dashboard.text.escaping import escaped
from dashboard.text.formats import last_steps, percent
from dashboard.views.run.step_input import of_step, step_input
from dashboard.views.run.tabs.tab import Tab, training_run
from dashboard.widgets.panel import chart, empty, panel, to_come
from longtail.schemas.telemetry import Decoding, SpeculationStep, WorkerSpan

HELP = (
    "BUSY: generating. IDLE: done, waiting for the slowest. TRAINING: training the drafter meanwhile. INFERENCE: computing log-probs of "
    "responses that are complete meanwhile. UPDATE: the rest of inference, update, sync. "
    "The strip in a lane tells what drafts; without one decoding is plain. "
    "Symbols: the share begins with what is predicted longest, responses carried over from the step before, responses stopped early."
)
A_STEP = 0


@dataclass(frozen=True)
class ShownSteps:
    """The steps that are shown."""

    name: str
    spans: Sequence[WorkerSpan]
    decoding: Sequence[Decoding]
    speculation: Sequence[SpeculationStep]


def show(data: RunData) -> None:
    with panel("Workers", HELP) as head:
        if not data.spans:
            empty(to_come("What each worker does will appear here after the first step."))
            return
        window = _window(data, head)
        if not window.spans:
            empty("The run has no such step.")
            return
        origin = data.run.started_at.timestamp() if data.run.started_at else window.spans[0].start
        chart(worker_timeline.worker_timeline(window.spans, min(origin, window.spans[0].start), window.decoding), f"timeline-{window.name}")
        if speculates(data.run.config):
            _harvest(data, window)


def _window(data: RunData, head: DeltaGenerator) -> ShownSteps:
    counts = (1, 3, 10, SPAN_STEPS, A_STEP)
    count = head.segmented_control(
        "Steps shown", counts, default=3, required=True, key=f"window-{data.run.id}", format_func=_last, label_visibility="collapsed"
    )
    last = max(span.step for span in data.spans)
    if count == A_STEP:
        step, api = step_input(head, f"timeline-step-{data.run.id}", last), client()
        return ShownSteps(
            f"step {step}",
            of_step(data, data.spans, step, "spans-of-step", api.spans),
            of_step(data, data.decoding, step, "decoding-of-step", api.decoding),
            of_step(data, data.recent, step, "speculation-of-step", api.speculation),
        )
    first = last - (count or SPAN_STEPS)
    return ShownSteps(
        _last(count or SPAN_STEPS),
        [span for span in data.spans if span.step > first],
        [item for item in data.decoding if item.step > first],
        [item for item in data.recent if first < item.step <= last],
    )


def _harvest(data: RunData, window: ShownSteps) -> None:
    seconds = {state: sum(span.end - span.start for span in window.spans if span.state == state) for state in ("IDLE", "TRAINING")}
    idle, trained = (data.statistics.idle_seconds, data.statistics.trained_seconds or 0.0) if data.statistics else (None, 0.0)
    if waited := sum(seconds.values()):
        shown, whole = percent(seconds["TRAINING"] / waited), percent(trained / idle if idle else None)
        st.caption(f"{whole} of all waiting time was used to train the drafter, {shown} of what is shown.")
    for reason in untrained_reasons(window.speculation):
        st.caption(escaped(f"{reason}."))


def _last(steps: int) -> str:
    return "a step" if steps == A_STEP else last_steps(steps)


TAB = Tab("Timeline", show, DataQuery(("spans", "decoding", "recent")), training_run)
