"""The first questions of every visitor - is it training, is it faster, why? - answered in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from dashboard.analysis.run_config import speculates
from dashboard.analysis.series import finite
from dashboard.text.formats import count, duration, last_steps, number, percent, ratio
from longtail.schemas.comparison import ComparedRun
from longtail.schemas.runs import Run
from longtail.schemas.telemetry import DrafterSession, Lengths, Series

MIN_STEPS = 4
RECENT = 5


@dataclass(frozen=True)
class Answer:
    question: str
    headline: str
    detail: str


def is_it_training(rewards: Series, steps: int) -> Answer:
    """Compares the first with the last third of the rewards; a change is called one from two standard errors on."""
    values = [value for _, value in finite(rewards)]
    question = "Is it training?"
    if not values:
        return Answer(question, "Not yet", "no step has finished")
    if len(values) < MIN_STEPS:
        return Answer(question, f"Reward {values[-1]:.2f}", f"{len(values)} of {steps} steps: too early to tell")
    third = max(2, len(values) // 3)
    first, last = values[:third], values[-third:]
    change = fmean(last) - fmean(first)
    error = ((stdev(first) ** 2 + stdev(last) ** 2) / third) ** 0.5
    trend = "no clear change yet" if abs(change) < 2 * error else "rising" if change > 0 else "falling"
    detail = f"mean reward, first against last {third} of {len(values)} steps: {trend} ({change:+.3f} ± {2 * error:.3f})"
    return Answer(question, f"Reward {fmean(first):.2f} → {fmean(last):.2f}", detail)


def is_it_faster(run: Run, seconds: Series, baseline: ComparedRun | None, tlt: ComparedRun | None) -> Answer:
    """``baseline`` and ``tlt`` are the plain and the speculating run of the same configuration, over the steps both have."""
    values = [value for _, value in finite(seconds)]
    question = "Is it faster?"
    if not values:
        return Answer(question, "Not yet", "no step has finished")
    if baseline is None or tlt is None or tlt.e2e_speedup is None:
        kind = "plain" if not speculates(run.config) else "TLT"
        other = "TLT" if kind == "plain" else "plain"
        alone = f"mean of {count(len(values), 'step')} of a {kind} run; no {other} run of the same configuration to compare with"
        return Answer(question, f"{duration(fmean(values))} a step", alone)
    detail = (
        f"{duration(tlt.seconds_per_step)} instead of {duration(baseline.seconds_per_step)} a step over {count(tlt.steps, 'step')}: "
        f"rollout is {percent(baseline.rollout_share)} of a plain step and runs {ratio(tlt.rollout_speedup)} as fast"
    )
    if not speculates(run.config):
        return Answer(question, "Plain baseline", f"with TLT {ratio(tlt.e2e_speedup)} as fast end to end: {detail}")
    return Answer(question, f"{ratio(tlt.e2e_speedup)} end to end", detail)


def why(run: Run, accept: Series, idle: Series, trained: Series, lengths: Sequence[Lengths], drafters: Sequence[DrafterSession]) -> Answer:
    """The tail that workers wait for, the tokens that a target pass yields, and the waiting time that trains the drafter."""
    recent = [value for _, value in finite(accept)][-RECENT:]
    tail = fmean(item.max / max(1, item.p50) for item in lengths) if lengths else None
    longest = f"the longest response is {number(tail, 1)}× the median" if tail else "no rollout has finished"
    waited, used = sum(value for _, value in finite(idle)), sum(value for _, value in finite(trained))
    if not speculates(run.config):
        return Answer("Why?", f"{duration(waited)} idle" if waited else "Not yet", f"workers waited for the tail: {longest}")
    if not recent:
        return Answer("Why?", "Not yet", longest)
    detail = f"of the target, in the {last_steps(len(recent))} (plain decoding: 1); {longest}"
    if waited:
        published = sum(session.published for session in drafters)
        detail += f"; {percent(used / waited)} of the waiting trained the drafter ({count(published, 'new version')})"
    return Answer("Why?", f"{fmean(recent):.2f} tokens a pass", detail)
