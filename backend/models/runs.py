"""Runs, their attempts, and what they are found by."""

import time
from typing import Any

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import ID_BYTES, Base, BigInt, Id, RunKey, new_id
from backend.models.baseline import is_plain, likeness
from longtail.schemas.projects import DEFAULT_PROJECT

GENERATED = "de30da7a"
"""How the ids of runs end that never happened (backend.demo_data): no worker has them, or takes them."""


def _given_config(context: Any) -> dict[str, Any]:
    """Of the row that is being inserted."""
    config: dict[str, Any] = context.get_current_parameters()["config"]
    return config


class Run(Base):
    """``attempt`` is the fencing number: whoever writes for an older attempt is refused.

    ``kind``: "engine" for runs that a worker carries, "tracked" for those of a script elsewhere, which only tells of them; the lease of
    such a one is renewed whenever its script says something.

    ``needs`` names a worker label. It takes so many ``gpus`` of its worker, or none where that offers fewer, unless it is ``gpu_only``.
    ``owner`` is null where nobody has a name. ``queued_at`` and ``claimed_at`` are of the latest attempt.
    ``parent_id`` is the run that this one was copied from, ``resumed_step`` the checkpoint of it that it goes on from.
    ``revision`` counts what users have changed of name, notes, tags and priority. ``source`` is the git state where it was submitted.
    ``tidied_at``: when a finished run's folder was cleared of what nobody can use any more.

    ``losses`` counts lost attempts in a row without a new checkpoint: ``checkpoint_step`` is the newest there is, ``lost_step`` the newest
    there was at the last loss; -1: none. ``lost_round`` is the furthest round of pretraining that a loss has seen.

    ``starting_up`` is what its attempt is at (schemas.runs.StartingUp), null once that has done a step or a round of
    pretraining.

    ``pretraining`` is the latest of its PretrainingRounds. ``drafter_id`` is the artifact that drafter.path auto stands for, empty where
    none fitted; null until a worker has looked.

    ``events_seq`` and ``events_offset`` say how far events.jsonl has been ingested.

    ``plain`` and ``likeness`` follow from ``config``: runs of one likeness, of which one is plain, are a pair (backend.models.baseline).

    ``ix_runs_list`` holds every column that lists choose and sort by: the rows themselves are wide.
    """

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_list", "created_at", "id", "deleted_at", "project_id", "state", "owner", "started_at", "finished_at", "name"),
        Index("ix_runs_owner_claimed", "owner", "claimed_at"),
        Index("ix_runs_pair", "likeness", "plain", "project_id", "created_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    project_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), default=DEFAULT_PROJECT)
    name: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(String(16), index=True, default="queued")
    kind: Mapped[str] = mapped_column(String(16), default="engine")
    config: Mapped[dict[str, Any]]
    plain: Mapped[bool] = mapped_column(default=lambda context: is_plain(_given_config(context)))
    likeness: Mapped[str] = mapped_column(String(16), default=lambda context: likeness(_given_config(context)))
    seed: Mapped[int]
    tags: Mapped[list[str]] = mapped_column(default=list)
    notes: Mapped[str] = mapped_column(Text, default="")
    revision: Mapped[int] = mapped_column(default=0)
    source: Mapped[dict[str, Any] | None]
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
    gpus: Mapped[int] = mapped_column(default=0)
    gpu_only: Mapped[bool] = mapped_column(default=False)
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
    checkpoint_step: Mapped[int] = mapped_column(default=-1)
    lost_step: Mapped[int] = mapped_column(default=-1)
    lost_round: Mapped[int] = mapped_column(default=0)
    pretraining: Mapped[dict[str, Any] | None]
    starting_up: Mapped[dict[str, Any] | None]
    drafter_id: Mapped[str | None] = mapped_column(String(2 * ID_BYTES))
    lease_expires_at: Mapped[float | None]
    events_seq: Mapped[int] = mapped_column(default=-1)
    events_offset: Mapped[BigInt] = mapped_column(default=0)


class RunValue(Base):
    """One thing that a run is found by: ``config.<dotted field>``, ``summary.<metric>``, ``tags.<tag>`` or ``notes``.

    ``number`` is null where the value is none. The key's order keeps a field's values of all runs together.
    """

    __tablename__ = "run_values"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    field: Mapped[str] = mapped_column(Text, primary_key=True, sort_order=-2)
    run_id: Mapped[RunKey] = mapped_column(index=True)
    text: Mapped[str] = mapped_column(Text)
    number: Mapped[float | None]


class Attempt(Base):
    """One engine process. ``pid_started`` (clock ticks since boot) tells it from a later process with the same id.

    ``gpus`` are those that it has to itself, by the names that its worker offers them by.
    ``environment`` is what it ran in (schemas.attempts.Environment), null until the worker has told.
    """

    __tablename__ = "attempts"

    run_id: Mapped[RunKey]
    number: Mapped[int] = mapped_column(primary_key=True)
    worker_id: Mapped[Id]
    gpus: Mapped[list[str]] = mapped_column(default=list)
    state: Mapped[str] = mapped_column(String(16), default="running")
    started_at: Mapped[float] = mapped_column(default=time.time)
    finished_at: Mapped[float | None]
    pid: Mapped[int | None]
    pid_started: Mapped[BigInt | None]
    exit_code: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(Text)
    environment: Mapped[dict[str, Any] | None]
