"""Series of several runs over the same steps, from their points and roll-ups: however long the runs are, an answer takes about as long."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.models import MetricKey
from backend.services.telemetry.metric_rollups import bucketed_points
from backend.services.telemetry.metric_series import bucket_steps
from backend.services.telemetry.metric_storage import BLOCK_STEPS
from longtail.schemas.comparison import AlignedMetric

MOST_STEPS = 16
"""Of a span that is summed up from points; beyond that, from whole blocks."""


class SeriesSum(NamedTuple):
    """Of a series over a range of steps: of its ``numbers`` values that are there."""

    total: float
    numbers: int

    @property
    def mean(self) -> float | None:
        return self.total / self.numbers if self.numbers else None


def step_ranges(session: Session, run_ids: Collection[str], key: str) -> dict[str, tuple[int, int]]:
    """First and last step of the series, by run."""
    query = select(MetricKey.run_id, MetricKey.first_step, MetricKey.last_step).where(MetricKey.key == key, MetricKey.run_id.in_(run_ids))
    return {run_id: (first, last) for run_id, first, last in session.execute(query)}


def series_sums(session: Session, run_ids: Collection[str], keys: Collection[str], steps: range) -> dict[tuple[str, str], SeriesSum]:
    """By run and key, of what has a value in these steps, of which there is one at least."""
    found = bucket_sums(session, run_ids, keys, steps[0], steps[-1], None)
    return {(run_id, key): SeriesSum(total, numbers) for run_id, key, _, total, numbers in found if numbers}


def bucket_sums(
    session: Session, run_ids: Collection[str], keys: Collection[str], first: int, last: int, width: int | None
) -> Sequence[Any]:
    """(run, key, span, total, numbers), the steps from ``first`` to ``last`` cut into spans at the multiples of ``width``; None: whole."""
    part = bucketed_points(run_ids, keys, first, last, width)
    names = (part.c.run_id, part.c.key, part.c.span)
    return session.execute(select(*names, func.sum(part.c.total), func.sum(part.c.numbers)).group_by(*names)).all()


def aligned_metrics(session: Session, run_ids: Sequence[str], keys: Sequence[str], points: int) -> list[AlignedMetric]:
    """For each key that one of the runs has: means over equal spans of steps, at most ``points`` of them, the same for all runs."""
    query = select(MetricKey.key, func.min(MetricKey.first_step), func.max(MetricKey.last_step))
    query = query.where(MetricKey.run_id.in_(run_ids), MetricKey.key.in_(keys)).group_by(MetricKey.key)
    alike: dict[tuple[int, int], list[str]] = defaultdict(list)
    for key, first, last in session.execute(query):
        alike[first, last].append(key)
    found = {
        metric.key: metric for (first, last), same in alike.items() for metric in _aligned(session, run_ids, same, first, last, points)
    }
    return [found[key] for key in dict.fromkeys(keys) if key in found]


def _aligned(session: Session, run_ids: Sequence[str], keys: Sequence[str], first: int, last: int, points: int) -> list[AlignedMetric]:
    width = bucket_steps(first, last, points)
    width = width if width <= MOST_STEPS else max(width, BLOCK_STEPS)
    means: dict[str, dict[str, dict[int, float | None]]] = {key: {run_id: {} for run_id in run_ids} for key in keys}
    for run_id, key, span, total, numbers in bucket_sums(session, run_ids, keys, first, last, width):
        means[key][run_id][span] = SeriesSum(total, numbers).mean
    metrics = []
    for key, by_run in means.items():
        spans = sorted({span for found in by_run.values() for span in found})
        values = {run_id: [found.get(span) for span in spans] for run_id, found in by_run.items()}
        metrics.append(AlignedMetric(key=key, span=width, steps=[max(span * width, first) for span in spans], values=values))
    return metrics
