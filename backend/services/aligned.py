"""Series of several runs at once: whole, or over the same steps in so many points as a chart can show."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.models import Metric
from backend.schemas.comparison import AlignedMetric
from backend.schemas.telemetry import Series


def whole(session: Session, run_ids: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, Series]]:
    """By run and key. A query for each: two columns of a range of the primary key cost less than four and their grouping."""
    return {run_id: {key: line for key in keys if (line := _series(session, run_id, key)).steps} for run_id in run_ids}


def _series(session: Session, run_id: str, key: str) -> Series:
    query = select(Metric.step, Metric.value).where(Metric.run_id == run_id, Metric.key == key).order_by(Metric.step)
    points = session.execute(query).all()
    return Series(steps=[step for step, _ in points], values=[value for _, value in points])


def aligned(session: Session, run_ids: Sequence[str], keys: Sequence[str], points: int) -> list[AlignedMetric]:
    """For each key that one of the runs has: means over equal spans of steps, at most ``points`` of them, the same for all runs."""
    query = select(Metric.key, func.min(Metric.step), func.max(Metric.step)).where(Metric.run_id.in_(run_ids), Metric.key.in_(keys))
    ends = {key: (first, last) for key, first, last in session.execute(query.group_by(Metric.key))}
    return [_aligned(session, run_ids, key, *ends[key], points) for key in dict.fromkeys(keys) if key in ends]


def _aligned(session: Session, run_ids: Sequence[str], key: str, first: int, last: int, points: int) -> AlignedMetric:
    width = (last - first) // points + 1
    span = ((Metric.step - first) // width).label("span")
    query = select(Metric.run_id, span, func.avg(Metric.value)).where(Metric.run_id.in_(run_ids), Metric.key == key)
    means = {(run_id, number): mean for run_id, number, mean in session.execute(query.group_by(Metric.run_id, span))}
    numbers = sorted({number for _, number in means})
    values = {run_id: [means.get((run_id, number)) for number in numbers] for run_id in run_ids}
    return AlignedMetric(key=key, span=width, steps=[first + number * width for number in numbers], values=values)
