"""What a run has reported so far. ``since_step`` asks for later steps only."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from backend.models import Artifact, LogLine, Metric, Sample, Stepped
from backend.schemas.telemetry import Series

LOG_LINES = 1000
LAST_STEP = 2**31 - 1


class Stretch(NamedTuple):
    """Steps after ``since`` up to ``until``; of a long run, only those that are multiples of ``every``."""

    since: int = -1
    until: int = LAST_STEP
    every: int = 1


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


def stepped(session: Session, model: type[Stepped], run_id: str, stretch: Stretch) -> Sequence[Row[Any]]:
    """The rows of ``model`` in the order of their steps."""
    inside = (model.step > stretch.since, model.step <= stretch.until)
    query = select(*model.__table__.columns).where(model.run_id == run_id, *inside)
    if stretch.every > 1:
        query = query.where(model.step % stretch.every == 0)
    return session.execute(query.order_by(model.step, *model.__table__.primary_key)).all()


def samples(session: Session, run_id: str, since_step: int, limit: int, step: int | None = None) -> Sequence[Sample]:
    """The latest ``limit``, oldest first; of one ``step`` only if that is given."""
    query = select(Sample).where(Sample.run_id == run_id, Sample.step > since_step)
    if step is not None:
        query = query.where(Sample.step == step)
    return session.scalars(query.order_by(Sample.seq.desc()).limit(limit)).all()[::-1]


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
