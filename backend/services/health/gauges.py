"""The state of the platform in numbers, for Prometheus. A handful of small queries; none touches the telemetry of runs."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from backend.models import Attempt, Delivery, Project, Run, Worker
from backend.models.runs import GENERATED
from backend.services.identity.tokens import Identity
from backend.services.projects.membership_check import visible_projects
from backend.services.queue.scheduling import NOT_GENERATED, SEEN_SECONDS, QueueLimits, rooms, slots
from backend.services.queue.waiting_runs import stuck_seconds
from backend.services.runs.lifecycle import ACTIVE, CARRIED
from backend.settings import Settings
from engine.checkpoint.run_folder import EVENTS
from longtail.schemas.runs import RunState
from longtail.schemas.telemetry import PretrainingRound

Values = Mapping[tuple[str, ...], float]
MOST_RUNS = 100
ENGINE: Mapping[str, str] = {
    "tokens_per_second": "Generated tokens a second of rollout",
    "accept_length": "Tokens that a pass of the target brings",
    "harvest": "Share of idle worker time that trained the drafter",
    "rollout_share": "Share of the step spent generating",
    "step_seconds": "Duration of the latest step",
    "reward_mean": "Mean reward of the latest step",
}


def gauge(name: str, about: str, values: Values, *labels: str) -> Metric:
    family = GaugeMetricFamily(f"longtail_{name}", about, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def platform_gauges(session: Session, settings: Settings, identity: Identity | None, now: float) -> Iterator[Metric]:
    """The platform's, and of each run that ``identity`` may see its own: none for somebody without a token."""
    yield from _queue(session, settings, now)
    yield from _workers(session, now)
    yield from _leases(session, settings, now)
    if identity is not None:
        yield from _visible_runs(session, visible_projects(identity))
    attempts = _counted(session, select(Attempt.state, func.count()).group_by(Attempt.state))
    yield gauge("attempts", "Attempts on record; lost: taken from a worker, or its engine was killed", attempts, "state")
    events = session.scalar(select(func.coalesce(func.sum(Run.events_seq + 1), 0)))
    yield gauge("ingested_events", "Events of all runs that are in the database", {(): float(events or 0)})
    deliveries = _counted(session, select(Delivery.state, func.count()).group_by(Delivery.state))
    yield gauge("webhook_deliveries", "Messages to webhooks; failed: given up", deliveries, "state")


def _queue(session: Session, settings: Settings, now: float) -> Iterator[Metric]:
    kept = Run.deleted_at.is_(None)
    states = {(state,): 0.0 for state in get_args(RunState)}
    yield gauge("runs", "Runs", states | _counted(session, select(Run.state, func.count()).where(kept).group_by(Run.state)), "state")
    needs = select(Run.needs, func.count()).where(Run.state == "queued").group_by(Run.needs)
    yield gauge("queue_depth", "Queued runs by the worker label that they need", {("",): 0.0} | _counted(session, needs), "needs")
    may_start = or_(Run.start_after.is_(None), Run.start_after <= now)
    oldest = session.scalar(select(func.min(Run.queued_at)).where(Run.state == "queued", may_start, ~Run.id.endswith(GENERATED)))
    waited = max(now - oldest, 0.0) if oldest else 0.0
    yield gauge("queue_oldest_seconds", "How long the oldest run that may start has been queued", {(): waited})
    stuck = stuck_seconds(session, QueueLimits.of(settings), now)
    about = "How long the oldest run has been queued that a worker could take now, or none that is alive ever"
    yield gauge("queue_stuck_seconds", about, {(): stuck})


def _workers(session: Session, now: float) -> Iterator[Metric]:
    seen = now - SEEN_SECONDS
    workers = session.scalar(select(func.count()).select_from(Worker).where(Worker.seen_at >= seen, NOT_GENERATED)) or 0
    known = slots(rooms(session, seen))
    total: Values = {(label,): float(each.total) for label, each in known.items()}
    free: Values = {(label,): float(each.free) for label, each in known.items()}
    yield gauge("workers", "Workers seen in the last minute", {(): float(workers)})
    yield gauge("worker_slots", "Runs that they carry at a time, by label; all under the empty one", total, "label")
    yield gauge("worker_slots_free", "Of these, free", free, "label")


def _leases(session: Session, settings: Settings, now: float) -> Iterator[Metric]:
    """Of what workers carry: their leases, and how far events are ingested."""
    columns = (Run.id, Run.events_offset, Run.lease_expires_at)
    runs = session.execute(select(*columns).where(CARRIED, Run.lease_expires_at.is_not(None)).order_by(Run.claimed_at)).all()
    left = [run.lease_expires_at - now for run in runs]
    yield gauge("leases", "Leases held by workers", {(): float(len(left))})
    least = min(left, default=settings.lease_seconds)
    yield gauge("lease_left_seconds", "Until the first of them is over; below 0: overdue", {(): least})
    lag = sum(max(_written(settings, run.id) - run.events_offset, 0) for run in runs[:MOST_RUNS])
    yield gauge("ingest_lag_bytes", "Written by engines under way, but not in the database yet", {(): float(lag)})


def _visible_runs(session: Session, projects: Select[Any]) -> Iterator[Metric]:
    """What engines and scripts say of the runs of these projects that are under way."""
    visible = Run.state.in_(ACTIVE), Run.deleted_at.is_(None), Run.project_id.in_(projects.with_only_columns(Project.id))
    columns = (Run.id, Run.name, Run.step, Run.steps, Run.pretraining, Run.summary)
    runs = session.execute(select(*columns).where(*visible).order_by(Run.claimed_at).limit(MOST_RUNS)).all()
    progress = {_key(run): run.step / run.steps for run in runs if run.steps}
    yield gauge("run_progress", "Share of the run's steps that are done", progress, "run", "name")
    rounds = {_key(run): PretrainingRound.model_validate(run.pretraining) for run in runs if run.pretraining}
    ahead = {key: latest.seconds_left for key, latest in rounds.items()}
    about = "Until the run's drafter is pretrained, as it looked after the latest round"
    yield gauge("run_pretraining_seconds_left", about, ahead, "run", "name")
    for name, about in ENGINE.items():
        known = {_key(run): run.summary[name] for run in runs if run.summary.get(name) is not None}
        yield gauge(f"run_{name}", about, known, "run", "name")


def _key(run: Any) -> tuple[str, ...]:
    return run.id, run.name


def _written(settings: Settings, run_id: str) -> int:
    with suppress(OSError):
        return (settings.run_folder(run_id) / EVENTS).stat().st_size
    return 0


def _counted(session: Session, query: Any) -> dict[tuple[str, ...], float]:
    return {(name,): float(number) for name, number in session.execute(query)}
