"""What a run is at while it does no steps, and how long it is going to take."""

from datetime import datetime
from typing import NamedTuple

from dashboard.analysis.run_config import section
from dashboard.text.escaping import escaped
from dashboard.text.formats import count, duration, short
from longtail.schemas.runs import Run, StartingUp


class SimilarRun(NamedTuple):
    """A finished run, its seconds a step, and those until its first step began; None: not measured."""

    run: Run
    step_seconds: float
    startup_seconds: float | None


def is_beginning(run: Run) -> bool:
    """Whether no step is under way, though it may have done some: it waits, or its engine begins, or begins again."""
    return run.state in ("queued", "paused", "starting") or run.starting_up is not None


def beginning(run: Run, similar: SimilarRun | None, now: datetime, step_seconds: float | None = None) -> str:
    """As Markdown: ``first rollout, 12 of 32 responses, for 8.0 s, about 5 min 0 s left, as gsm8k took``. ``step_seconds`` is the run's own
    pace, if it has done steps."""
    if run.state == "paused":
        return "paused"
    if run.state == "queued":
        return _queued(run, now)
    at = run.starting_up
    if at is None:
        return "the engine is being started"
    if at.pretrains or run.pretrains:
        left = _pretraining(run, at, now)
    else:
        left = _left(run, similar, now) if step_seconds is None else _own(run, step_seconds)
    return f"{phase(run, at)}, for {duration((now - at.since).total_seconds())}{left}"


def pretraining_left(run: Run, now: datetime) -> str:
    """Of training a drafter, after its first round: ``about 2 min 0 s left``."""
    if run.pretraining and run.pretraining.done:
        return "trained"
    left = run.seconds_to_pretrain(now)
    return f"about {duration(left)} left" if left else "ends with this round"


def phase(run: Run, at: StartingUp) -> str:
    """What an attempt is at; it may be one of several."""
    if at.phase == "first_rollout":
        again = " of this attempt" if run.step else ""
        responses = f"first rollout{again}, {at.done:,} of {at.total:,} responses"
        return responses if at.done < at.total else f"first update of the policy{again}"
    given = section(run.config, "drafter").get("pretrain_responses")
    return {
        "starting_workers": "starting workers",
        "measuring_costs": "measuring costs",
        "first_responses": f"the model {'reads the' if given else 'writes its'} first responses",
        "first_round": f"first round of training the drafter{' in this attempt' if run.pretraining else ''}",
    }[at.phase]


def _queued(run: Run, now: datetime) -> str:
    if run.start_after is not None and run.start_after > now:
        return f"starts after {run.start_after:%Y-%m-%d %H:%M} UTC"
    return f"waiting for a worker that offers {escaped(run.needs)}" if run.needs else "waiting for a worker"


def _left(run: Run, similar: SimilarRun | None, now: datetime) -> str:
    """The rest of the start-up and all steps, at the pace of a run like it."""
    if similar is None or run.started_at is None:
        return ", and no finished run is like it to tell how long it takes"
    if similar.startup_seconds is None:
        return f", about {duration(run.steps * similar.step_seconds)} for all steps, as {escaped(short(similar.run.name))} took"
    whole = similar.startup_seconds + run.steps * similar.step_seconds
    left = max(whole - (now - run.started_at).total_seconds(), 0.0)
    return f", about {duration(left)} left, as {escaped(short(similar.run.name))} took"


def _pretraining(run: Run, at: StartingUp, now: datetime) -> str:
    """It ends earlier where nothing more is gained, and later where the first responses take long."""
    if run.pretraining is not None:
        left = run.seconds_to_pretrain(now)
        return f", about {duration(left)} left to train the drafter" if left else ""
    spent = (now - at.since).total_seconds() if at.phase == "first_responses" else 0.0
    left = 60 * run.pretrain_minutes - spent
    return f", up to about {duration(left)} to train the drafter" if left > 0 else ", longer than was given to train the drafter"


def _own(run: Run, step_seconds: float) -> str:
    """Of a run that goes on: its own pace says more than another's, and when it was first begun says nothing."""
    more = max(run.steps - run.step, 0)
    return f", about {duration(more * step_seconds)} for {count(more, 'more step')}" if more else ""
