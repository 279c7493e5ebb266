"""Whose turn it is. The whole policy is one query, so that every worker that asks gets the same answer.

An owner's runs go by priority, which waiting raises, then by age. Between owners: the one whose first run has the higher priority,
raised by how long the owner has waited since being served last; then the one with fewer runs under way; then the one served longest ago.
So nobody starves: who is passed over rises, and who is served starts again. Limits, needs and start times bar a run without a place
in that order.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select
from sqlalchemy.orm import Session

from backend.models import Attempt, Run, Worker
from backend.models.runs import GENERATED
from backend.services.runs.lifecycle import CARRIED
from backend.settings import Settings

SEEN_SECONDS = 60.0
"""A worker that has not shown itself for so long counts as gone."""
NOT_GENERATED = ~Worker.id.endswith(GENERATED)
"""Of workers: one that there is; those of demo data take nothing."""


class Slots(NamedTuple):
    """Runs that workers carry at a time, and how many more they could take now."""

    total: int
    free: int


@dataclass(frozen=True)
class QueueLimits:
    """``active`` and ``active_per_owner`` runs at a time, 0 for any number. ``aging_seconds`` of waiting are a point of priority."""

    active: int = 0
    active_per_owner: int = 0
    aging_seconds: float = 3600.0

    @classmethod
    def of(cls, settings: Settings) -> "QueueLimits":
        return cls(settings.max_active, settings.max_active_per_owner, settings.aging_seconds)


def next_run(labels: Collection[str], limits: QueueLimits, now: float) -> Select[Any]:
    """The id of the run that a worker with ``labels`` takes next."""
    owner = func.coalesce(Run.owner, "")
    served = select(owner.label("owner"), func.max(Run.claimed_at).label("at")).group_by(owner).subquery()
    busy = select(owner.label("owner"), func.count().label("runs")).where(CARRIED).group_by(owner).subquery()
    under_way = func.coalesce(busy.c.runs, 0)
    aged = Run.priority + _floor((now - Run.queued_at) / limits.aging_seconds)
    place = func.row_number().over(partition_by=owner, order_by=(aged.desc(), Run.queued_at, Run.id))
    passed_over_since = case((served.c.at > Run.queued_at, served.c.at), else_=Run.queued_at)
    candidates = (
        select(
            Run.id,
            Run.queued_at,
            place.label("place"),
            (Run.priority + _floor((now - passed_over_since) / limits.aging_seconds)).label("turn"),
            under_way.label("under_way"),
            func.coalesce(served.c.at, 0.0).label("served_at"),
        )
        .outerjoin(served, served.c.owner == owner)
        .outerjoin(busy, busy.c.owner == owner)
        .where(*waiting(labels, now))
    )
    if limits.active:
        all_busy = select(func.count()).select_from(Run).where(CARRIED).scalar_subquery()
        candidates = candidates.where(all_busy < limits.active)
    if limits.active_per_owner:
        candidates = candidates.where(under_way < limits.active_per_owner)
    found = candidates.subquery()
    order = (found.c.turn.desc(), found.c.under_way, found.c.served_at, found.c.queued_at, found.c.id)
    return select(found.c.id).where(found.c.place == 1).order_by(*order).limit(1)


def waiting(labels: Collection[str], now: float) -> tuple[ColumnElement[bool], ...]:
    """Queued runs that a worker with ``labels`` may carry, and that may start."""
    may_start = or_(Run.start_after.is_(None), Run.start_after <= now)
    return Run.state == "queued", Run.needs.in_({"", *labels}), may_start, ~Run.id.endswith(GENERATED)


def slots(session: Session, seen_since: float) -> dict[str, Slots]:
    """Of the workers seen lately, by label; those of all of them under the empty one."""
    busy = and_(Attempt.worker_id == Worker.id, Attempt.state == "running")
    query = select(Worker.labels, Worker.slots, func.count(Attempt.number)).outerjoin(Attempt, busy)
    found: dict[str, Slots] = {}
    for labels, total, carried in session.execute(query.where(Worker.seen_at >= seen_since, NOT_GENERATED).group_by(Worker.id)):
        for label in ("", *labels):
            before = found.get(label, Slots(0, 0))
            found[label] = Slots(before.total + total, before.free + max(total - carried, 0))
    return found


def _floor(value: ColumnElement[Any]) -> ColumnElement[float]:
    return func.floor(value)
