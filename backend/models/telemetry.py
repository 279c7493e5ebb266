"""What a run's events are rolled up into. Everything here can be rebuilt from events.jsonl."""

from typing import Any

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import Base, RunKey, RunReference


class Stepped(Base):
    """Belongs to an RL step, and is taken back when a resumed attempt does that step again."""

    __abstract__ = True

    run_id: Mapped[RunKey]
    step: Mapped[int]


class Metric(Stepped):
    """A point of a series; ``value`` is null where the engine reported no finite number."""

    __tablename__ = "metrics"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    key: Mapped[str] = mapped_column(Text, primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[float | None]


class Rollout(Stepped):
    __tablename__ = "rollouts"

    step: Mapped[int] = mapped_column(primary_key=True)
    lengths: Mapped[list[int]]
    truncated: Mapped[int]
    p50: Mapped[int]
    p75: Mapped[int]
    p90: Mapped[int]
    max: Mapped[int]


class Speculation(Stepped):
    __tablename__ = "speculation"

    step: Mapped[int] = mapped_column(primary_key=True)
    arms: Mapped[list[dict[str, Any]]]
    drafted_by_position: Mapped[list[int]]
    accepted_by_position: Mapped[list[int]]
    untrained: Mapped[str | None] = mapped_column(Text)


class Span(Stepped):
    __tablename__ = "spans"
    __table_args__ = (Index("ix_spans_run_step", "run_id", "step"),)

    seq: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    start: Mapped[float]
    end: Mapped[float]


class DrafterSession(Stepped):
    __tablename__ = "drafter_sessions"

    seq: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[float]
    drafter_version: Mapped[int]
    published: Mapped[bool]
    reason: Mapped[str] = mapped_column(Text)
    microsteps: Mapped[int]
    tokens: Mapped[int]
    loss: Mapped[float | None]
    held_out_before: Mapped[float | None]
    held_out_after: Mapped[float | None]
    mix_distance: Mapped[float | None]


class Sample(Stepped):
    __tablename__ = "samples"

    seq: Mapped[int] = mapped_column(primary_key=True)
    prompt: Mapped[str] = mapped_column(Text)
    response: Mapped[str] = mapped_column(Text)
    reward: Mapped[float | None]


class LogLine(Base):
    """``source``: "engine" for lines of events.jsonl, "platform" for what the job side has to say."""

    __tablename__ = "logs"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    run_id: Mapped[RunReference]
    source: Mapped[str] = mapped_column(String(16))
    time: Mapped[float]
    level: Mapped[str] = mapped_column(String(16))
    step: Mapped[int | None]
    code: Mapped[str] = mapped_column(Text, default="")
    message: Mapped[str] = mapped_column(Text)
