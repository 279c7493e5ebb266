"""What carries an accepted run to a worker."""

import time

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import Base, BigInt, Id, RunReference, new_id


class IdempotencyKey(Base):
    """A user's own: others may choose the same. ``user_id`` is empty for keys of before users had their own."""

    __tablename__ = "idempotency_keys"

    user_id: Mapped[Id] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(String(64))
    run_id: Mapped[RunReference]
    created_at: Mapped[float] = mapped_column(default=time.time)


class Worker(Base):
    """A job worker process; ``pid_started`` (clock ticks since boot) tells it from a later process with the same id.

    ``machine`` is where that id means something (see jobs.engine.processes). It carries ``slots`` runs at a time, those without needs and
    those that need one of its ``labels``. The ``gpus`` that they share are names by which CUDA takes them, and which one each is: several
    workers of a host may offer the same one.
    """

    __tablename__ = "workers"
    __table_args__ = (Index("ix_workers_seen", "seen_at"),)

    id: Mapped[Id] = mapped_column(primary_key=True, default=new_id)
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    pid_started: Mapped[BigInt]
    machine: Mapped[str] = mapped_column(String(128), default="")
    labels: Mapped[list[str]] = mapped_column(default=list)
    gpus: Mapped[dict[str, str]] = mapped_column(default=dict)
    slots: Mapped[int] = mapped_column(default=1)
    started_at: Mapped[float] = mapped_column(default=time.time)
    seen_at: Mapped[float] = mapped_column(default=time.time)
