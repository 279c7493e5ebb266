"""What a run has reported so far. ``since_step`` asks for later steps only."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.models import Artifact, DrafterSession, LogLine, Metric, Rollout, Sample, Span, Speculation
from backend.schemas.telemetry import Series

LOG_LINES = 1000


def series(session: Session, run_id: str, keys: Sequence[str] = (), since_step: int = -1) -> dict[str, Series]:
    query = select(Metric.key, Metric.step, Metric.value).where(Metric.run_id == run_id, Metric.step > since_step)
    if keys:
        query = query.where(Metric.key.in_(keys))
    found: dict[str, Series] = {}
    for key, step, value in session.execute(query.order_by(Metric.key, Metric.step)):
        line = found.setdefault(key, Series(steps=[], values=[]))
        line.steps.append(step)
        line.values.append(value)
    return found


def lengths(session: Session, run_id: str, since_step: int) -> Sequence[Rollout]:
    return session.scalars(select(Rollout).where(Rollout.run_id == run_id, Rollout.step > since_step).order_by(Rollout.step)).all()


def spans(session: Session, run_id: str, since_step: int) -> Sequence[Span]:
    return session.scalars(select(Span).where(Span.run_id == run_id, Span.step > since_step).order_by(Span.seq)).all()


def speculation(session: Session, run_id: str, since_step: int) -> Sequence[Speculation]:
    query = select(Speculation).where(Speculation.run_id == run_id, Speculation.step > since_step)
    return session.scalars(query.order_by(Speculation.step)).all()


def drafters(session: Session, run_id: str, since_step: int) -> Sequence[DrafterSession]:
    query = select(DrafterSession).where(DrafterSession.run_id == run_id, DrafterSession.step > since_step)
    return session.scalars(query.order_by(DrafterSession.seq)).all()


def samples(session: Session, run_id: str, since_step: int, limit: int) -> Sequence[Sample]:
    """The latest ``limit``, oldest first."""
    query = select(Sample).where(Sample.run_id == run_id, Sample.step > since_step).order_by(Sample.seq.desc()).limit(limit)
    return session.scalars(query).all()[::-1]


def logs(
    session: Session,
    run_id: str,
    since: int = 0,
    before: int | None = None,
    tail: int | None = None,
    levels: Collection[str] = (),
    contains: str = "",
) -> Sequence[LogLine]:
    """Up to LOG_LINES lines with an id above ``since`` and below ``before``, oldest first; ask again from the last one's id.

    ``tail`` asks for the last so many of them. Only lines of these levels, all if there are none, that contain the text in any case.
    """
    query = select(LogLine).where(LogLine.run_id == run_id, LogLine.id > since)
    if before is not None:
        query = query.where(LogLine.id < before)
    if levels:
        query = query.where(LogLine.level.in_(levels))
    if contains:
        query = query.where(LogLine.message.icontains(contains, autoescape=True))
    if tail is None:
        return session.scalars(query.order_by(LogLine.id).limit(LOG_LINES)).all()
    return session.scalars(query.order_by(LogLine.id.desc()).limit(tail)).all()[::-1]


def artifacts(session: Session, run_id: str) -> Sequence[Artifact]:
    return session.scalars(select(Artifact).where(Artifact.run_id == run_id).order_by(Artifact.created_at)).all()
