"""Series of one run or several over a range of steps, as parts to sum up: of a long one whole blocks rather than points, so that
it costs about as much as a short one."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Select, Subquery, and_, case, literal, select, union_all

from backend.models import Metric, MetricBlock, MetricKey
from backend.services.telemetry.metric_storage import BLOCK_STEPS
from longtail.schemas.tracking import LARGEST_STEP


def bucketed_points(run_ids: Collection[str], keys: Collection[str], first: int, last: int, width: int | None) -> Subquery:
    """(run_id, key, span, first, low, high, total, numbers) from step ``first`` to ``last``. Spans begin at the multiples of ``width``,
    a power of two, and ``span`` is their number; None: all is one. A series' last block, which may be stale, is read as points.

    The limit, which never cuts anything off, has SQLite look up where the series end before it reads points, and not after reading all."""
    mine = (Metric.run_id.in_(run_ids), Metric.key.in_(keys))
    begin, end = -(-first // BLOCK_STEPS), (last + 1) // BLOCK_STEPS
    if begin >= end or (width is not None and width < BLOCK_STEPS):
        return _points(width, *mine, Metric.step.between(first, last)).subquery()
    closed, block = MetricKey.last_step // BLOCK_STEPS, MetricBlock.block
    until = case((closed < begin, begin), (closed < end, closed), else_=end)
    ends = select(MetricKey.run_id, MetricKey.key, until.label("until")).where(MetricKey.run_id.in_(run_ids), MetricKey.key.in_(keys))
    end_of = ends.limit(len(run_ids) * len(keys)).subquery()
    columns = (MetricBlock.first_step, MetricBlock.low, MetricBlock.high, MetricBlock.total, MetricBlock.numbers)
    blocks = select(MetricBlock.run_id, MetricBlock.key, _span(block * BLOCK_STEPS, width), *columns)
    blocks = blocks.join(end_of, _same(MetricBlock, end_of)).where(block >= begin, block < end_of.c.until)
    head = _points(width, *mine, Metric.step.between(first, begin * BLOCK_STEPS - 1))
    tail = _points(width, Metric.step.between(end_of.c.until * BLOCK_STEPS, last)).join(end_of, _same(Metric, end_of))
    return union_all(head, blocks, tail).subquery()


def _points(width: int | None, *where: ColumnElement[bool]) -> Select[Any]:
    value, known = Metric.value, case((Metric.value.is_(None), 0), else_=1)
    columns = (Metric.step.label("first"), value.label("low"), value.label("high"), value.label("total"), known.label("numbers"))
    return select(Metric.run_id, Metric.key, _span(Metric.step, width), *columns).where(*where)


def _span(step: Any, width: int | None) -> ColumnElement[int]:
    """All is one, too, where spans are longer than all steps: PostgreSQL divides in 32 bits."""
    return (literal(0) if width is None or width > LARGEST_STEP else step // width).label("span")


def _same(table: type[Metric] | type[MetricBlock], end_of: Subquery) -> ColumnElement[bool]:
    return and_(end_of.c.run_id == table.run_id, end_of.c.key == table.key)
