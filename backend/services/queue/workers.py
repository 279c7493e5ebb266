"""Which worker carries which runs. Those of demo data, whose times lie far ahead, show as if they had just been heard of."""

from collections.abc import Collection, Set
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from backend.models import Attempt, Run, Worker
from backend.models.runs import GENERATED
from backend.services.pagination import page
from backend.services.queue.gpus import taken_gpus
from backend.services.queue.scheduling import SEEN_SECONDS
from backend.services.runs.lifecycle import ACTIVE
from longtail.schemas.queue import Lease
from longtail.schemas.queue import Worker as Reply

HELD = and_(Run.state.in_(ACTIVE), Run.kind == "engine", Run.lease_expires_at.is_not(None))
"""By a worker, one of demo data included."""


def workers(session: Session, projects: Collection[str], limit: int, cursor: str | None, now: float) -> tuple[list[Reply], str | None]:
    """Those of the last day, started last first. Of runs outside of ``projects`` only their number is told."""
    found, next_cursor = page(session, select(Worker), [Worker.started_at, Worker.id], limit, cursor)
    leases: dict[str, list[Lease]] = {worker.id: [] for worker in found}
    hidden = dict.fromkeys(leases, 0)
    current = and_(Attempt.run_id == Run.id, Attempt.number == Run.attempt)
    held = select(
        Attempt.worker_id,
        Attempt.gpus,
        Run.project_id,
        Run.id.label("run_id"),
        Run.name.label("run_name"),
        *(Run.state, Run.attempt, Run.step, Run.steps, Run.pretraining, Run.claimed_at),
        Run.lease_expires_at.label("expires_at"),
    )
    for row in session.execute(held.join(Attempt, current).where(HELD, Attempt.worker_id.in_(leases)).order_by(Run.claimed_at)):
        if row.project_id in projects:
            leases[row.worker_id].append(_lease(row, now))
        else:
            hidden[row.worker_id] += 1
    taken = taken_gpus(session, HELD)
    return [_reply(worker, leases[worker.id], hidden[worker.id], taken, now) for worker in found], next_cursor


def _lease(row: Any, now: float) -> Lease:
    lease = Lease.model_validate(row)
    if row.worker_id.endswith(GENERATED):
        lease.expires_at = datetime.fromtimestamp(now + SEEN_SECONDS, UTC)
    return lease


def _reply(worker: Worker, leases: list[Lease], hidden: int, taken: Set[str], now: float) -> Reply:
    facts = {name: getattr(worker, name) for name in ("id", "host", "labels", "slots", "started_at")}
    facts |= {"seen_at": min(worker.seen_at, now), "generated": worker.id.endswith(GENERATED)}
    facts |= {"gpus": list(worker.gpus), "gpus_taken": sum(gpu in taken for gpu in worker.gpus.values())}
    return Reply.model_validate(facts | {"alive": worker.seen_at >= now - SEEN_SECONDS, "leases": leases, "hidden": hidden})
