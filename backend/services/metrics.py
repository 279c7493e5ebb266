"""Series of points, as they are read: whole if they are short, else as an envelope of buckets of equally many steps."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, case, func, select, union_all
from sqlalchemy.orm import Session

from backend.models import Metric, MetricBlock, MetricKey
from backend.schemas.telemetry import MetricKey as Key
from backend.schemas.telemetry import Series
from backend.services.series import BLOCK_STEPS
from backend.services.telemetry import series

MOST_VALUES = 200_000
"""In one answer; of very many series each gets fewer points."""


def thinned(session: Session, run_id: str, keys: Sequence[str], since_step: int, points: int) -> dict[str, Series]:
    """Each series in at most ``points`` points or buckets."""
    query = select(MetricKey.key, MetricKey.first_step, MetricKey.last_step).where(
        MetricKey.run_id == run_id, MetricKey.last_step > since_step
    )
    query = query.order_by(MetricKey.key)
    if keys:
        query = query.where(MetricKey.key.in_(keys))
    spans = {key: (max(first, since_step + 1), last) for key, first, last in session.execute(query)}
    most = max(min(points, MOST_VALUES // max(len(spans), 1)), 1)
    long = {key: span for key, span in spans.items() if span[1] - span[0] >= most and _has_more(session, run_id, key, since_step, most)}
    whole = [key for key in spans if key not in long]
    found = series(session, run_id, whole, since_step) if whole else {}
    found |= {key: _envelope(session, run_id, key, first, last, most) for key, (first, last) in long.items()}
    return {key: found[key] for key in spans if key in found}


def overview(session: Session, run_id: str) -> list[Key]:
    """The run's series by key: where each begins and ends, its latest value, and of how many points it is."""
    block, closed = MetricKey.last_step // BLOCK_STEPS, MetricBlock
    same = (closed.run_id == MetricKey.run_id, closed.key == MetricKey.key, closed.block < block)
    rolled = select(func.coalesce(func.sum(closed.points), 0)).where(*same).scalar_subquery()
    tail = (Metric.run_id == MetricKey.run_id, Metric.key == MetricKey.key, Metric.step >= block * BLOCK_STEPS)
    rest = select(func.count()).select_from(Metric).where(*tail).scalar_subquery()
    columns = (MetricKey.key, MetricKey.first_step, MetricKey.last_step, MetricKey.value, (rolled + rest).label("points"))
    found = session.execute(select(*columns).where(MetricKey.run_id == run_id).order_by(MetricKey.key))
    return [Key.model_validate(row) for row in found]


def _has_more(session: Session, run_id: str, key: str, since_step: int, points: int) -> bool:
    """Than so many points; a sparse series may have few in many steps."""
    mine = select(Metric.step).where(Metric.run_id == run_id, Metric.key == key, Metric.step > since_step)
    return (session.scalar(select(func.count()).select_from(mine.limit(points + 1).subquery())) or 0) > points


def _envelope(session: Session, run_id: str, key: str, first: int, last: int, points: int) -> Series:
    """In buckets of a power of two steps, which begin at multiples of it: a growing series keeps those that it has."""
    width = 1
    while last // width - first // width >= points:
        width *= 2
    part = _parts(run_id, key, first, last, width).subquery()
    at = func.min(part.c.first).label("first")
    columns = (at, func.min(part.c.low), func.max(part.c.high), func.sum(part.c.total), func.sum(part.c.numbers))
    line = Series(width=width)
    for step, low, high, total, numbers in session.execute(select(*columns).group_by(part.c.bucket).order_by(at)):
        line.steps.append(step)
        line.low.append(low)
        line.high.append(high)
        line.values.append(total / numbers if numbers else None)
    return line


def _parts(run_id: str, key: str, first: int, last: int, width: int) -> CompoundSelect[Any]:
    """The points, or where a bucket has whole blocks those blocks, but for the last one; each with its bucket."""
    end = last // BLOCK_STEPS if width >= BLOCK_STEPS else 0
    begin = min(-(-first // BLOCK_STEPS), end)
    inside = (MetricBlock.run_id == run_id, MetricBlock.key == key, MetricBlock.block >= begin, MetricBlock.block < end)
    columns = [MetricBlock.first_step, MetricBlock.low, MetricBlock.high, MetricBlock.total, MetricBlock.numbers]
    blocks = select((MetricBlock.block * BLOCK_STEPS // width).label("bucket"), *columns).where(*inside)
    head = _points(run_id, key, width, Metric.step.between(first, begin * BLOCK_STEPS - 1))
    return union_all(head, blocks, _points(run_id, key, width, Metric.step >= max(first, end * BLOCK_STEPS)))


def _points(run_id: str, key: str, width: int, where: ColumnElement[bool]) -> Select[Any]:
    value, known = Metric.value, case((Metric.value.is_(None), 0), else_=1)
    columns = (Metric.step.label("first"), value.label("low"), value.label("high"), value.label("total"), known.label("numbers"))
    return select((Metric.step // width).label("bucket"), *columns).where(Metric.run_id == run_id, Metric.key == key, where)
