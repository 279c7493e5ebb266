"""What runs report. Everything of a run that we carry out can be rebuilt from its events.jsonl."""

from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from backend.models.base import ID_BYTES, Base, BigInt, RunKey


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


class MetricKey(Base):
    """A series of points: where it begins and ends, and its latest value. It may begin later than ``first_step``, never before."""

    __tablename__ = "metric_keys"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    run_id: Mapped[RunKey]
    key: Mapped[str] = mapped_column(Text, primary_key=True)
    first_step: Mapped[int]
    last_step: Mapped[int]
    value: Mapped[float | None]


class MetricBlock(Base):
    """The points of a series in BLOCK_STEPS steps rolled up; ``numbers`` of them have a value. The block of its last step may be stale."""

    __tablename__ = "metric_blocks"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    run_id: Mapped[RunKey]
    key: Mapped[str] = mapped_column(Text, primary_key=True)
    block: Mapped[int] = mapped_column(primary_key=True)
    first_step: Mapped[int]
    points: Mapped[int]
    numbers: Mapped[int]
    low: Mapped[float | None]
    high: Mapped[float | None]
    total: Mapped[float | None]


class Batch(Base):
    """What a script sent at once, so that it counts once however often it is sent; ``sha256`` is of its content."""

    __tablename__ = "batches"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    run_id: Mapped[RunKey]
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))


class Rollout(Stepped):
    __tablename__ = "rollouts"

    step: Mapped[int] = mapped_column(primary_key=True)
    lengths: Mapped[list[int]]
    rewards: Mapped[list[float] | None]
    truncated: Mapped[int]
    p50: Mapped[int]
    p75: Mapped[int]
    p90: Mapped[int]
    max: Mapped[int]


class Decoding(Stepped):
    """``points`` are [time, running, strategy] and ``marks`` [time, what, number], see ``engine.events.Decoding``."""

    __tablename__ = "decoding"

    step: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[int] = mapped_column(primary_key=True)
    start: Mapped[float]
    points: Mapped[list[list[Any]]]
    marks: Mapped[list[Any] | None]


class Speculation(Stepped):
    __tablename__ = "speculation"

    step: Mapped[int] = mapped_column(primary_key=True)
    arms: Mapped[list[dict[str, Any]]]
    drafted_by_position: Mapped[list[int]]
    accepted_by_position: Mapped[list[int]]
    ngram_drafted_by_position: Mapped[list[int] | None]
    ngram_accepted_by_position: Mapped[list[int] | None]
    untrained: Mapped[str | None] = mapped_column(Text)


class WorkerSpan(Stepped):
    __tablename__ = "spans"
    __table_args__ = (Index("ix_spans_run_step", "run_id", "step"),)

    seq: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    start: Mapped[float]
    end: Mapped[float]


class DrafterSession(Stepped):
    __tablename__ = "drafter_sessions"
    __table_args__ = (Index("ix_drafter_sessions_published", "run_id", "published"),)

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
    noise: Mapped[float | None]
    top1_before: Mapped[float | None]
    top1_after: Mapped[float | None]
    top3_before: Mapped[float | None]
    top3_after: Mapped[float | None]


class PretrainingRound(Base):
    """A round of training the drafter before the first step, see ``engine.events.DrafterPretrained``."""

    __tablename__ = "pretraining_rounds"

    run_id: Mapped[RunKey]
    round: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[float]
    seconds: Mapped[float]
    limit: Mapped[float]
    end: Mapped[float]
    done: Mapped[bool]
    responses: Mapped[int]
    response_tokens: Mapped[BigInt]
    microsteps: Mapped[int]
    tokens: Mapped[BigInt]
    loss: Mapped[float | None]
    held_out: Mapped[float | None]
    top1: Mapped[float | None]
    top3: Mapped[float | None]
    accept_length: Mapped[float | None]
    vocabulary: Mapped[int]
    drafter_version: Mapped[int]


class Sample(Stepped):
    __tablename__ = "samples"
    __table_args__ = (Index("ix_samples_run_step", "run_id", "step", "seq"),)

    seq: Mapped[int] = mapped_column(primary_key=True)
    prompt: Mapped[str] = mapped_column(Text)
    response: Mapped[str] = mapped_column(Text)
    reward: Mapped[float | None]
    pieces: Mapped[list[Any] | None]
    prompt_number: Mapped[int | None]
    group_rewards: Mapped[list[float] | None]
    advantage: Mapped[float | None]
    tokens: Mapped[int | None]
    truncated: Mapped[bool | None]


class LogLine(Base):
    """``source``: "engine" for lines of events.jsonl, "platform" for what the job side has to say, "script" for those of a tracked run.

    A run's lines get their ids under the lock on its row, so that they become visible in the order of their ids."""

    __tablename__ = "logs"
    __table_args__ = (Index("ix_logs_run", "run_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    run_id: Mapped[str] = mapped_column(String(2 * ID_BYTES), ForeignKey("runs.id", ondelete="CASCADE"))
    source: Mapped[str] = mapped_column(String(16))
    time: Mapped[float]
    level: Mapped[str] = mapped_column(String(16))
    step: Mapped[int | None]
    code: Mapped[str] = mapped_column(Text, default="")
    message: Mapped[str] = mapped_column(Text)
