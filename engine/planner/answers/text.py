"""A plan in words, for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from engine.planner.answers.plan import Plan

PHASES = ("rollout", "reward", "inference", "update", "sync", "evaluation")
SHOWN = 6


def text(found: Plan) -> str:
    """Lines of at most 120 characters, but for long names."""
    return "\n".join([*_head(found), "", *_arms(found), *_answers(found), *_offers(found), *_recorded(found)])


def _head(found: Plan) -> Iterator[str]:
    yield f"{found.workers} workers on {found.machines}, {found.steps:,} steps, {found.dollars_per_hour:,.2f} dollars an hour"
    yield f"lengths {found.lengths}"
    if found.correction != 1.0:
        yield f"decoding takes {found.correction:.2f} times what the table says, by the recorded run"
    if found.memory:
        yield "GB of the fullest GPU: " + ", ".join(f"{name} {size:.0f}" for name, size in found.memory.items())
    yield from found.notes


def _arms(found: Plan) -> Iterator[str]:
    phases = [name for name in PHASES if any(name in arm.phases for arm in found.arms)]
    yield f"{'seconds a step':24}{'all':>9}" + "".join(f"{name:>11}" for name in phases) + f"{'hours':>9}{'dollars':>11}{'x plain':>9}"
    for arm in found.arms:
        spent = "".join(f"{arm.phases.get(name, 0.0):11.2f}" for name in phases)
        faster = found.arms[0].step_seconds / arm.step_seconds
        yield f"{arm.name:24}{arm.step_seconds:9.2f}{spent}{arm.hours:9.2f}{arm.dollars:11,.0f}{faster:9.2f}"


def _answers(found: Plan) -> Iterator[str]:
    if found.influences:
        yield "\nSeconds of a step as configured, with half and with twice of:"
        yield from (f"  {each.input:24}{each.half:9.2f}{each.twice:9.2f}" for each in found.influences)
    if found.break_evens:
        yield "\nTLT pays:"
        for even in found.break_evens:
            where = " from a 32nd to 32 times of what it is" if even.value is None else f" {even.value:,.3g}"
            yield f"  {even.input}: {even.pays}{where}"
    if found.advice:
        yield "\nChange first:"
        for change in found.advice[:SHOWN]:
            yield f"  {', '.join(_fields(change.changes))}: {change.saved:.2f} s a step ({change.share:.0%}); {change.price}"


def _offers(found: Plan) -> Iterator[str]:
    if found.influences and not found.offers:
        yield "\nNo machines are known with which it is over by the deadline."
    if found.offers:
        yield f"\n{'machines':16}{'hours':>9}{'dollars':>11}{'plain hours':>13}{'plain dollars':>15}"
    for offer in found.offers:
        yield f"{offer.machines:16}{offer.hours:9.2f}{offer.dollars:11,.0f}{offer.plain_hours:13.2f}{offer.plain_dollars:15,.0f}"


def _recorded(found: Plan) -> Iterator[str]:
    if found.recorded:
        yield f"\n{'step':>6}{'measured':>10}{'predicted':>11}{'rollout':>10}{'predicted':>11}"
    for each in found.recorded:
        rollouts = f"{each.measured_rollout_s:10.2f}{each.predicted_rollout_s:11.2f}"
        yield f"{each.step:6}{each.measured_s:10.2f}{each.predicted_s:11.2f}{rollouts}"


def _fields(changes: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{above}{name}.")
        else:
            yield f"{above}{name}={value}"
