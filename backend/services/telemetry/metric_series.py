"""Series of points, as they are read: whole if they are short, else as an envelope of buckets of equally many steps."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.models import Metric, MetricBlock, MetricKey
from backend.services.telemetry.metric_rollups import bucketed_points
from backend.services.telemetry.metric_storage import BLOCK_STEPS
from longtail.schemas.telemetry import MetricKey as Key
from longtail.schemas.telemetry import Series

MOST_VALUES = 200_000
"""In one answer; of very many series each gets fewer points."""


def downsampled(session: Session, run_id: str, keys: Sequence[str], since_step: int, points: int, prefix: str = "") -> dict[str, Series]:
    """Each series, of those of ``keys`` if there are some and whose key begins so, in at most ``points`` points or buckets."""
    query = select(MetricKey.key, MetricKey.first_step, MetricKey.last_step).where(
        MetricKey.run_id == run_id, MetricKey.last_step > since_step
    )
    query = query.order_by(MetricKey.key)
    if keys:
        query = query.where(MetricKey.key.in_(keys))
    if prefix:
        query = query.where(MetricKey.key.startswith(prefix, autoescape=True))
    spans = {key: (max(first, since_step + 1), last) for key, first, last in session.execute(query)}
    most = max(min(points, MOST_VALUES // max(len(spans), 1)), 1)
    long = {key: span for key, span in spans.items() if span[1] - span[0] >= most and _has_more(session, run_id, key, since_step, most)}
    whole = [key for key in spans if key not in long]
    found = whole_series(session, run_id, whole, since_step) if whole else {}
    alike: dict[tuple[int, int], list[str]] = defaultdict(list)
    for key, span in long.items():
        alike[span].append(key)
    for (first, last), same in alike.items():
        found |= {key: line for (_, key), line in envelopes(session, [run_id], same, first, last, most).items()}
    return {key: found[key] for key in spans if key in found}


def metric_keys(session: Session, run_id: str) -> list[Key]:
    """The run's series by key: where each begins and ends, its latest value, and of how many points it is."""
    block, closed = MetricKey.last_step // BLOCK_STEPS, MetricBlock
    same = (closed.run_id == MetricKey.run_id, closed.key == MetricKey.key, closed.block < block)
    rolled = select(func.coalesce(func.sum(closed.points), 0)).where(*same).scalar_subquery()
    tail = (Metric.run_id == MetricKey.run_id, Metric.key == MetricKey.key, Metric.step >= block * BLOCK_STEPS)
    rest = select(func.count()).select_from(Metric).where(*tail).scalar_subquery()
    columns = (MetricKey.key, MetricKey.first_step, MetricKey.last_step, MetricKey.value, (rolled + rest).label("points"))
    found = session.execute(select(*columns).where(MetricKey.run_id == run_id).order_by(MetricKey.key))
    return [Key.model_validate(row) for row in found]


def bucket_steps(first: int, last: int, points: int) -> int:
    """The least power of two such that its multiples cut the steps into at most ``points`` buckets."""
    width = 1
    while last // width - first // width >= points:
        width *= 2
    return width


def _has_more(session: Session, run_id: str, key: str, since_step: int, points: int) -> bool:
    """Than so many points; a sparse series may have few in many steps."""
    mine = select(Metric.step).where(Metric.run_id == run_id, Metric.key == key, Metric.step > since_step)
    return (session.scalar(select(func.count()).select_from(mine.limit(points + 1).subquery())) or 0) > points


def envelopes(
    session: Session, run_ids: Collection[str], keys: Collection[str], first: int, last: int, points: int
) -> dict[tuple[str, str], Series]:
    """By run and key, from step ``first`` to ``last``, all in the same buckets. A growing series keeps the buckets that it has."""
    width = bucket_steps(first, last, points)
    part = bucketed_points(run_ids, keys, first, last, width)
    at = func.min(part.c.first).label("first")
    names = (part.c.run_id, part.c.key)
    columns = (at, func.min(part.c.low), func.max(part.c.high), func.sum(part.c.total), func.sum(part.c.numbers))
    lines: dict[tuple[str, str], Series] = defaultdict(lambda: Series(width=width))
    for run_id, key, step, low, high, total, numbers in session.execute(
        select(*names, *columns).group_by(*names, part.c.span).order_by(at)
    ):
        line = lines[run_id, key]
        line.steps.append(step)
        line.values.append(total / numbers if numbers else None)
        if width > 1:
            line.low.append(low)
            line.high.append(high)
    return lines


def whole_series(session: Session, run_id: str, keys: Sequence[str], since_step: int) -> dict[str, Series]:
    query = select(Metric.key, Metric.step, Metric.value)
    query = query.where(Metric.run_id == run_id, Metric.step > since_step, Metric.key.in_(keys))
    found: dict[str, Series] = {}
    for key, step, value in session.execute(query.order_by(Metric.key, Metric.step)):
        line = found.setdefault(key, Series(steps=[], values=[]))
        line.steps.append(step)
        line.values.append(value)
    return found
