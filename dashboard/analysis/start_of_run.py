"""What a run is at that has not done a step, and how long it is going to take, by a run like it."""

from datetime import datetime
from typing import NamedTuple

from dashboard.text.escaping import escaped
from dashboard.text.formats import duration, short
from longtail.schemas.runs import Run, StartingUp


class SimilarRun(NamedTuple):
    """A finished run, its seconds a step, and those until its first step began."""

    run: Run
    step_seconds: float
    startup_seconds: float


def beginning(run: Run, similar: SimilarRun | None, now: datetime) -> str:
    """As Markdown: ``first rollout, 12 of 32 responses, for 8.0 s, about 5 min 0 s left, as gsm8k took``."""
    if run.state == "paused":
        return "paused"
    if run.state == "queued":
        return _queued(run, now)
    at = run.starting_up
    if at is None:
        return "the model writes its first responses" if run.trains_drafter_only else "the engine is being started"
    return f"{phase(at)}, for {duration((now - at.since).total_seconds())}{_left(run, similar, now)}"


def phase(at: StartingUp) -> str:
    if at.phase == "first_rollout":
        return f"first rollout, {at.done:,} of {at.total:,} responses" if at.done < at.total else "first update of the policy"
    return {"starting_workers": "starting workers", "measuring_costs": "measuring costs"}[at.phase]


def _queued(run: Run, now: datetime) -> str:
    if run.start_after is not None and run.start_after > now:
        return f"starts after {run.start_after:%Y-%m-%d %H:%M} UTC"
    return f"waiting for a worker that offers {escaped(run.needs)}" if run.needs else "waiting for a worker"


def _left(run: Run, similar: SimilarRun | None, now: datetime) -> str:
    """The rest of the start-up and all steps, at the pace of a run like it."""
    if similar is None or run.started_at is None:
        return ", and no finished run is like it to tell how long it takes"
    whole = similar.startup_seconds + run.steps * similar.step_seconds
    left = max(whole - (now - run.started_at).total_seconds(), 0.0)
    return f", about {duration(left)} left, as {escaped(short(similar.run.name))} took"
