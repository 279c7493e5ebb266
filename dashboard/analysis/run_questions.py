"""The first questions of every visitor - is it training, is it faster, why? - answered in numbers, over every step that is done."""

from dataclasses import dataclass, replace

from dashboard.analysis.run_config import speculates
from dashboard.text.formats import count, duration, last_steps, number, percent, ratio
from longtail.schemas.comparison import ComparedRun
from longtail.schemas.run_statistics import RunStatistics, SavedSeconds
from longtail.schemas.runs import Run

WITHIN = 0.05
"""Of the time that decoding took: so far were estimates from what runs of ``tiny`` took plainly (``bench e2e``)."""
NOT_YET = "Not yet"


@dataclass(frozen=True)
class Answer:
    """``at_the_end``: the headline of a run that has ended, where it is another one."""

    question: str
    headline: str
    detail: str
    at_the_end: str = ""


def of_ended(answer: Answer) -> Answer:
    """The same of a run from which nothing more comes."""
    return replace(answer, headline=answer.at_the_end or answer.headline)


def is_it_training(found: RunStatistics, steps: int) -> Answer:
    """Compares the first with the last third of the rewards; a change is called one from two standard errors on."""
    question, trend = "Is it training?", found.reward_trend
    if found.reward is None:
        unmeasured = Answer(question, "Reward not measured", f"in none of {count(found.steps, 'step')}")
        return unmeasured if found.steps else Answer(question, NOT_YET, "no step has finished", "No step")
    if trend is None:
        return Answer(question, f"Reward {number(found.reward)}", f"{found.rewarded_steps:,} of {steps:,} steps: too few to tell")
    change = trend.last - trend.first
    called = "no clear change" if abs(change) <= 2 * trend.error else "rising" if change > 0 else "falling"
    over = f"mean reward, first against last {trend.steps:,} of {found.rewarded_steps:,} steps"
    detail = f"{over}: {called} ({change:+.3f} ± {2 * trend.error:.3f})"
    return Answer(question, f"Reward {number(trend.first)} → {number(trend.last)}", detail)


def is_it_faster(run: Run, found: RunStatistics, baseline: ComparedRun | None, tlt: ComparedRun | None) -> Answer:
    """``baseline`` and ``tlt`` are the plain and the speculating run of the same configuration, over the steps both have."""
    question = "Is it faster?"
    if found.step_seconds is None:
        return Answer(question, NOT_YET, "no step has finished", "No step")
    if baseline is None or tlt is None or tlt.e2e_speedup is None:
        kind = "plain" if not speculates(run.config) else "TLT"
        other = "TLT" if kind == "plain" else "plain"
        alone = f"mean of {count(found.steps, 'step')} of a {kind} run; no {other} run of the same configuration to compare with"
        return Answer(question, f"{duration(found.step_seconds)} a step", alone)
    detail = (
        f"{duration(tlt.seconds_per_step)} instead of {duration(baseline.seconds_per_step)} a step over {count(tlt.steps, 'step')}: "
        f"rollout is {percent(baseline.rollout_share)} of a plain step and runs {ratio(tlt.rollout_speedup)} as fast"
    )
    if baseline.machine != tlt.machine:
        detail += f"; on another machine: {tlt.machine or 'not known'} instead of {baseline.machine or 'not known'}"
    if not speculates(run.config):
        return Answer(question, "Plain baseline", f"with TLT {ratio(tlt.e2e_speedup)} as fast end to end: {detail}")
    return Answer(question, f"{ratio(tlt.e2e_speedup)} end to end", detail)


def why(run: Run, found: RunStatistics) -> Answer:
    """The tail that workers wait for, the tokens that a target pass yields, the waiting time that trains the drafter, and what all that
    brings in seconds."""
    question = "Why?"
    longest = f"the longest response is {number(found.tail, 1)}× the median" if found.tail else "no rollout has finished"
    longest += f" in the {last_steps(found.tail_steps)}" if found.tail and found.tail_steps < found.steps else ""
    if not speculates(run.config):
        return _waiting(question, found, longest)
    if found.accept_length is None:
        return Answer(question, NOT_YET, longest, "No drafts" if found.steps else "No step")
    detail = f"of the target, in the {last_steps(found.accept_steps)} (plain decoding: 1); {longest}"
    waited, trained = found.idle_seconds, found.trained_seconds
    if waited and trained is not None and trained <= waited:  # more is of steps of which the waiting was not told
        used, published = percent(trained / waited), count(found.published, "new version")
        detail += f"; {used} of the waiting trained the drafter ({published})"
    return Answer(question, f"{found.accept_length:.2f} tokens a pass", f"{detail}; {shortened(found.saved, found.steps)}")


def _waiting(question: str, found: RunStatistics, longest: str) -> Answer:
    """Of a plain run."""
    if not found.steps:
        return Answer(question, NOT_YET, longest, "No step")
    if found.idle_seconds is None:
        return Answer(question, "Waiting not measured", longest)
    if not found.idle_seconds:
        return Answer(question, "No waiting", longest)
    return Answer(question, f"{duration(found.idle_seconds)} idle", f"workers waited for the tail: {longest}")


def shortened(saved: SavedSeconds | None, steps: int) -> str:
    """By how many seconds drafts, the learned drafter, and training during the run have shortened it. ``WITHIN`` of the time that decoding
    took, or less, is nothing: the estimate is not that exact."""
    if saved is None:
        return "by how much that shortened the run was not measured"
    parts = {"drafts": saved.drafts, "the learned drafter": saved.learned_drafter, "training during the run": saved.training}
    least = WITHIN * saved.decoding
    told = [f"{name} {_by(seconds, least)}" for name, seconds in parts.items()]
    over = f" in {count(saved.steps, 'step')}" if saved.steps < steps else ""
    return f"estimated for decoding{over}: {', '.join(told)}"


def _by(seconds: float, least: float) -> str:
    if abs(seconds) <= least:
        return "brought nothing"
    return f"saved {duration(seconds)}" if seconds > 0 else f"cost {duration(-seconds)}"
