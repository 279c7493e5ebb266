"""Whose turn it is. The whole policy is one query, so that every worker that asks gets the same answer.

An owner's runs go by priority, which waiting raises, then by age. Between owners: the one whose first run has the higher priority,
raised by how long the owner has waited since being served last; then the one with fewer runs under way; then the one served longest ago.
So nobody starves: who is passed over rises, and who is served starts again. Limits, needs and start times bar a run without a place
in that order. A run whose GPUs are not free yet keeps its turn: of those behind it a worker takes only what computes on the CPU.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select
from sqlalchemy.orm import Session

from backend.models import Attempt, Run, Worker
from backend.models.runs import GENERATED
from backend.services.queue.gpus import free_gpus
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


class Room(NamedTuple):
    """Of a worker: its labels, of which the empty one is everybody's, its slots, and which GPUs it offers."""

    labels: frozenset[str]
    slots: Slots
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class QueueLimits:
    """``active`` and ``active_per_owner`` runs at a time, 0 for any number. ``aging_seconds`` of waiting are a point of priority."""

    active: int = 0
    active_per_owner: int = 0
    aging_seconds: float = 3600.0

    @classmethod
    def of(cls, settings: Settings) -> "QueueLimits":
        return cls(settings.max_active, settings.max_active_per_owner, settings.aging_seconds)


def next_fitting(
    session: Session, labels: Collection[str], gpus: Mapping[str, str], limits: QueueLimits, now: float
) -> tuple[str, list[str]] | None:
    """The run that a worker with ``labels``, which offers ``gpus``, takes next, and the GPUs that it gives to it."""
    free = free_gpus(session, gpus)
    for most in (len(gpus), 0):
        found = session.execute(next_run(labels, limits, now, len(gpus), most)).first()
        if found is None:
            return None
        if found.taken <= len(free):
            return found.id, free[: found.taken]
    return None


def next_run(labels: Collection[str], limits: QueueLimits, now: float, offered: int = 0, most: int = 0) -> Select[Any]:
    """The id of the run whose turn it is with a worker that has ``labels`` and offers so many GPUs, and how many it takes: ``most`` of them
    at most."""
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
            taken_of(offered).label("taken"),
        )
        .outerjoin(served, served.c.owner == owner)
        .outerjoin(busy, busy.c.owner == owner)
        .where(*waiting(labels, now), or_(Run.gpus <= offered, ~Run.gpu_only), taken_of(offered) <= most)
    )
    if limits.active:
        all_busy = select(func.count()).select_from(Run).where(CARRIED).scalar_subquery()
        candidates = candidates.where(all_busy < limits.active)
    if limits.active_per_owner:
        candidates = candidates.where(under_way < limits.active_per_owner)
    found = candidates.subquery()
    order = (found.c.turn.desc(), found.c.under_way, found.c.served_at, found.c.queued_at, found.c.id)
    return select(found.c.id, found.c.taken).where(found.c.place == 1).order_by(*order).limit(1)


def waiting(labels: Collection[str], now: float) -> tuple[ColumnElement[bool], ...]:
    """Queued runs that a worker with ``labels`` may carry, and that may start."""
    may_start = or_(Run.start_after.is_(None), Run.start_after <= now)
    return Run.state == "queued", Run.needs.in_({"", *labels}), may_start, ~Run.id.endswith(GENERATED)


def taken_of(offered: int) -> ColumnElement[int]:
    """GPUs that a run takes of a worker with so many."""
    return case((Run.gpus <= offered, Run.gpus), else_=0)


def rooms(session: Session, seen_since: float) -> list[Room]:
    """Of the workers seen lately."""
    busy = and_(Attempt.worker_id == Worker.id, Attempt.state == "running")
    query = select(Worker.id, func.count(Attempt.number).label("runs")).outerjoin(Attempt, busy)
    carried = query.where(Worker.seen_at >= seen_since, NOT_GENERATED).group_by(Worker.id).subquery()
    found = session.execute(select(Worker.labels, Worker.slots, Worker.gpus, carried.c.runs).join(carried, carried.c.id == Worker.id))
    return [Room(frozenset({"", *labels}), Slots(total, max(total - runs, 0)), tuple(gpus.values())) for labels, total, gpus, runs in found]


def slots(known: Iterable[Room]) -> dict[str, Slots]:
    """By label; those of all workers under the empty one."""
    found: dict[str, Slots] = {}
    for room in known:
        for label in room.labels:
            before = found.get(label, Slots(0, 0))
            found[label] = Slots(before.total + room.slots.total, before.free + room.slots.free)
    return found


def _floor(value: ColumnElement[Any]) -> ColumnElement[float]:
    return func.floor(value)
