"""Runs and their attempts."""

import time
from typing import Any

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import Base, BigInt, Id, RunKey, new_id


class Run(Base):
    """``attempt`` is the fencing number: whoever writes for an older attempt is refused.

    ``kind``: "engine" for runs that a worker carries, "tracked" for those of a script elsewhere, which only tells of them; the lease of
    such a one is renewed whenever its script says something.

    ``needs`` names a worker label. ``owner`` is null where nobody has a name. ``queued_at`` and ``claimed_at`` are of the latest attempt.
    ``parent_id`` is the run that this one was copied from, ``resumed_step`` the checkpoint of it that it goes on from.
    ``tidied_at``: when a finished run's folder was cleared of what nobody can use any more.

    ``events_seq`` and ``events_offset`` say how far events.jsonl has been ingested.
    """

    __tablename__ = "runs"
    __table_args__ = (Index("ix_runs_created", "created_at", "id"), Index("ix_runs_owner_claimed", "owner", "claimed_at"))

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16), index=True, default="queued")
    kind: Mapped[str] = mapped_column(String(16), default="engine")
    config: Mapped[dict[str, Any]]
    seed: Mapped[int]
    tags: Mapped[list[str]] = mapped_column(default=list)
    created_at: Mapped[float] = mapped_column(default=time.time)
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]
    error: Mapped[str | None] = mapped_column(Text)
    error_code: Mapped[str | None] = mapped_column(Text)
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    pause_requested: Mapped[bool] = mapped_column(default=False)
    owner: Mapped[str | None] = mapped_column(String(64))
    priority: Mapped[int] = mapped_column(default=0)
    needs: Mapped[str] = mapped_column(String(64), default="")
    start_after: Mapped[float | None]
    queued_at: Mapped[float] = mapped_column(default=time.time)
    claimed_at: Mapped[float | None]
    parent_id: Mapped[str | None] = mapped_column(String(16), index=True)
    resumed_step: Mapped[int | None]
    deleted_at: Mapped[float | None]
    tidied_at: Mapped[float | None]
    step: Mapped[int] = mapped_column(default=0)
    steps: Mapped[int]
    summary: Mapped[dict[str, float | None]] = mapped_column(default=dict)
    attempt: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0)
    lease_expires_at: Mapped[float | None]
    events_seq: Mapped[int] = mapped_column(default=-1)
    events_offset: Mapped[BigInt] = mapped_column(default=0)


class Attempt(Base):
    """One engine process. ``pid_started`` (clock ticks since boot) tells it from a later process with the same id."""

    __tablename__ = "attempts"

    run_id: Mapped[RunKey]
    number: Mapped[int] = mapped_column(primary_key=True)
    worker_id: Mapped[Id]
    state: Mapped[str] = mapped_column(String(16), default="running")
    started_at: Mapped[float] = mapped_column(default=time.time)
    finished_at: Mapped[float | None]
    pid: Mapped[int | None]
    pid_started: Mapped[BigInt | None]
    exit_code: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(Text)
