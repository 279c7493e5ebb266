"""Who carries runs, and which runs wait for them."""

from datetime import datetime
from typing import Literal

from longtail.schemas.base import Page, Schema
from longtail.schemas.runs import RunState
from longtail.schemas.telemetry import PretrainingRound

Reason = Literal["next", "behind", "busy", "gpus", "no_worker", "time", "limit", "owner_limit", "generated"]


class Lease(Schema):
    """A run that a worker holds, until ``expires_at`` unless it renews its lease, and the GPUs that it has of that worker's.
    ``pretraining`` as of a run."""

    run_id: str
    run_name: str
    state: RunState
    attempt: int
    gpus: list[str]
    step: int
    steps: int
    pretraining: PretrainingRound | None
    claimed_at: datetime | None
    expires_at: datetime | None


class Worker(Schema):
    """A worker process. It carries ``slots`` runs at a time (0: its disk is full, or it has just failed), those without needs and those
    that need one of its ``labels``; each has its own of the ``gpus``, which are named as CUDA names them. ``gpus_taken``: so many of these
    a run has, of this worker or another one of its host, seen or not. ``alive``: it showed itself in the last minute. ``generated``: it is
    demo data, and takes nothing. ``hidden``: runs it holds that are out of the caller's sight."""

    id: str
    host: str
    labels: list[str]
    slots: int
    gpus: list[str]
    gpus_taken: int
    started_at: datetime
    seen_at: datetime
    alive: bool
    generated: bool
    leases: list[Lease]
    hidden: int


class WorkerPage(Page[Worker]):
    pass


class QueuedRun(Schema):
    """A queued run. ``place``: its number in the order in which runs are taken; null while it is not in that order.

    ``reason`` why it waits. next: a free slot takes it within moments. behind: the free slots go to runs before it. busy: no slot that
    may carry it is free. gpus: there is a slot, but the ``gpus`` that it takes are not free. no_worker: no living worker offers
    ``needs``, or so many GPUs to a run that cannot do without. time: not before ``start_after``. limit, owner_limit: as many runs
    are under way as may be, of all or of its owner. generated: it is demo data, which nobody takes.
    """

    run_id: str
    run_name: str
    owner: str | None
    priority: int
    needs: str
    gpus: int
    queued_at: datetime
    start_after: datetime | None
    place: int | None
    reason: Reason


class Queue(Schema):
    """``items``: those in the caller's sight, by place; ``total`` counts all. ``slots`` and ``free`` are of all living workers together;
    demo data has none.

    ``max_active`` and ``max_active_per_owner``: runs under way at a time, 0 is any number. ``aging_seconds`` of waiting are a point of
    priority.
    """

    items: list[QueuedRun]
    total: int
    active: int
    slots: int
    free: int
    max_active: int
    max_active_per_owner: int
    aging_seconds: float
