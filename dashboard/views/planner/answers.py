"""What a plan says, panel by panel."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.charts.planned_costs import costs_by_gpus, influences, phases_by_arm
from dashboard.charts.worker_timeline import worker_timeline
from dashboard.text.escaping import escaped
from dashboard.text.formats import SPACE, count, duration, number, percent, ratio, typeable
from dashboard.widgets.panel import chart, panel
from longtail.schemas.plans import BreakEven, ComparedStep, Plan
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import WorkerSpan

SHOWN_STEPS = 3
SHOWN_ADVICE = 5
FIRST_STEPS = "By the first simulated steps, which stand for all that follow. Where responses grow later, the run takes longer."
ADVICE = "Each change is simulated over the first steps; the one that saves most comes first. Below: from where on TLT pays."


def answers(plan: Plan, recorded: Run | None, speculates: bool) -> None:
    """``recorded``: the run that the plan learned from; ``speculates``: whether the configuration that was planned does."""
    _head(plan)
    left, right = st.columns(2, gap="medium")
    with left, panel("Where the seconds of a step go", "Simulated, in every way that this run can be run."):
        chart(phases_by_arm(plan.arms), "plan-phases")
    with right, panel("Time and money against GPUs", "With a deadline: the cheapest set of each kind that meets it."):
        chart(costs_by_gpus(plan.offers) if plan.offers else None, "plan-offers", "No set of machines meets the deadline.")
    _arms(plan)
    left, right = st.columns(2, gap="medium")
    with left, panel("What matters most", "A step with half, and with twice, of each; the dotted line is the run as configured."):
        now = plan.arms[1 if speculates else 0].step_seconds
        chart(influences(plan.influences, now) if plan.influences else None, "plan-influences", "Nothing was varied.")
    with right, panel("What to change first", ADVICE):
        st.markdown("  \n".join(_advice(plan)) or "No change saves one percent of the first steps.")
        st.markdown("  \n".join(break_evens(plan.break_evens)))
    _timelines(plan, recorded)


def _head(plan: Plan) -> None:
    plain, tlt = plan.arms[:2]
    with st.container(horizontal=True):
        shade: Literal["normal", "inverse"] = "normal" if tlt.step_seconds <= plain.step_seconds else "inverse"
        faster = f"{ratio(plain.step_seconds / tlt.step_seconds)} as fast as plain"
        st.metric("With TLT", duration(3600 * tlt.hours), faster, delta_color=shade, delta_arrow="off", help=FIRST_STEPS)
        st.metric("Costs with TLT", f"{tlt.dollars:,.2f} $", f"plain {plain.dollars:,.2f} $", delta_color="off", delta_arrow="off")
        st.metric("A step", duration(tlt.step_seconds), f"plain {duration(plain.step_seconds)}", delta_color="off", delta_arrow="off")
        if plan.memory:
            st.metric("Fullest GPU", f"{max(plan.memory.values()):.0f}{SPACE}GB")
    told = [machines_told(plan.workers, plan.machines), f"lengths {plan.lengths}", *plan.notes]
    if plan.correction != 1:
        told.append(f"decoding takes {plan.correction:.2g} times what was computed, by the recorded run")
    st.caption(escaped(" · ".join(told)))


def machines_told(workers: int, machines: str) -> str:
    return f"{count(workers, 'worker')} on {machines}"


def _arms(plan: Plan) -> None:
    plain = plan.arms[0].step_seconds
    rows = [
        {
            "arm": arm.name,
            "a step": duration(arm.step_seconds),
            "× plain": number(plain / arm.step_seconds),
            "whole run": duration(3600 * arm.hours),
            "dollars": f"{arm.dollars:,.2f}",
            "accept length": number(arm.accept_length),
            "workers waiting": percent(arm.idle_share),
            "tokens unused": percent(arm.unused_share),
        }
        for arm in plan.arms
    ]
    st.dataframe([{name: typeable(text) for name, text in row.items()} for row in rows], hide_index=True, key="plan-arms")


def _advice(plan: Plan) -> Iterator[str]:
    for each in plan.advice[:SHOWN_ADVICE]:
        fields = ", ".join(f"`{field}: {value}`" for field, value in _fields(each.changes))
        yield f"{fields} saves **{duration(each.saved)}** a step ({percent(each.share)}): {escaped(each.price)}"


def break_evens(found: Sequence[BreakEven]) -> Iterator[str]:
    for each in found:
        where = "from a 32nd to 32 times of what was assumed" if each.value is None else f"{each.value:,.3g}"
        yield f"{escaped(each.input).capitalize()}: TLT pays {escaped(each.pays)} {where}"


def _fields(changes: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in changes.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _timelines(plan: Plan, recorded: Run | None) -> None:
    left, right = st.columns(2, gap="medium")
    with left, panel("Simulated", f"The first {SHOWN_STEPS} steps as configured."):
        chart(worker_timeline(plan.spans, _first(plan.spans), plan.decoding), "plan-timeline")
    with right, panel("Measured", "The first steps of the run that the plan learned from."):
        if recorded is None:
            chart(None, "plan-measured", "No run was taken to compare with.")
            return
        spans = client().spans(recorded.id, -1, SHOWN_STEPS - 1)
        decoding = client().decoding(recorded.id, -1, SHOWN_STEPS - 1)
        chart(worker_timeline(spans, _first(spans), decoding) if spans else None, "plan-measured", "It has told of no workers.")
        if plan.recorded:
            st.caption(fitted(plan.recorded))


def fitted(steps: Sequence[ComparedStep]) -> str:
    """How long recorded steps took, and by a plan that was made by them."""
    measured, predicted = (sum(getattr(step, side) for step in steps) for side in ("measured_s", "predicted_s"))
    them = "it" if len(steps) == 1 else "them"
    took = f"{count(len(steps), 'recorded step')} took {duration(measured)}"
    return f"{took}; the plan, which was fitted to {them}, gives {them} {duration(predicted)}."


def _first(spans: Sequence[WorkerSpan]) -> float:
    return min((span.start for span in spans), default=0.0)
