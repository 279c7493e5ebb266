"""What a list shows of many runs beside the runs themselves, from the roll-ups: a handful of queries, however long they are."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, func, not_, select
from sqlalchemy.orm import Session, aliased

from backend.models import Metric, MetricKey, Run
from backend.services.telemetry.metric_means import SeriesSum, bucket_sums, series_sums, step_ranges
from backend.services.telemetry.metric_series import bucket_steps
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import TERMINAL_STATES

POINTS = 32
PACE_STEPS = 10
REWARD, SECONDS = "reward_mean", "step_seconds"


def run_overviews(session: Session, runs: Sequence[Run]) -> list[RunOverview]:
    ids = [run.id for run in runs]
    partner, awaited = partners(session, ids), awaited_partners(session, ids)
    rewards, seconds = step_ranges(session, ids, REWARD), step_ranges(session, {*ids, *partner.values()}, SECONDS)
    curve, pace = _curves(session, rewards), _paces(session, ids)
    last = {pair: min(seconds[run_id][1] for run_id in pair) for pair in partner.items() if seconds.keys() >= set(pair)}
    means = _means(session, last)

    def speedup(run: Run) -> float | None:
        pair = (run.id, partner.get(run.id, ""))
        own, other = (means.get((run_id, last.get(pair, -1))) for run_id in pair)
        plain, tlt = (own, other) if run.plain else (other, own)
        return plain / tlt if plain and tlt else None

    return [
        RunOverview(
            run_id=run.id,
            reward=curve.get(run.id, []),
            step_seconds=pace.get(run.id),
            partner_id=partner.get(run.id),
            awaited_id=awaited.get(run.id),
            speedup=speedup(run),
        )
        for run in runs
    ]


def partners(session: Session, ids: Collection[str]) -> dict[str, str]:
    """By run, for those that have one."""
    other = aliased(Run)
    return _newest(session, ids, other, other.step > 0)


def awaited_partners(session: Session, ids: Collection[str]) -> dict[str, str]:
    """By run, for those that have one which may still do its first step."""
    other = aliased(Run)
    return _newest(session, ids, other, other.step == 0, other.state.not_in(TERMINAL_STATES))


def _newest(session: Session, ids: Collection[str], other: type[Run], *conditions: ColumnElement[bool]) -> dict[str, str]:
    """By run, the newest of the ``other`` runs that are a pair with it."""
    like = (other.likeness == Run.likeness, other.plain == not_(Run.plain), other.project_id == Run.project_id)
    there = (other.kind == "engine", other.deleted_at.is_(None))
    newest = select(other.id).where(*like, *there, *conditions).order_by(other.created_at.desc()).limit(1).correlate(Run).scalar_subquery()
    found = session.execute(select(Run.id, newest).where(Run.id.in_(ids), Run.kind == "engine"))
    return {run_id: partner_id for run_id, partner_id in found if partner_id is not None}


def _curves(session: Session, spans: Mapping[str, tuple[int, int]]) -> dict[str, list[float | None]]:
    """A query for all runs whose points cover equally many steps."""
    alike: dict[int, list[str]] = defaultdict(list)
    for run_id, (first, last) in spans.items():
        alike[bucket_steps(first, last, POINTS)].append(run_id)
    curves: dict[str, list[float | None]] = defaultdict(list)
    for width, ids in alike.items():
        last = max(spans[run_id][1] for run_id in ids)
        for run_id, _, _, total, numbers in sorted(bucket_sums(session, ids, [REWARD], 0, last, width)):
            curves[run_id].append(SeriesSum(total, numbers).mean)
    return curves


def _paces(session: Session, ids: Collection[str]) -> dict[str, float | None]:
    """Mean seconds of the last steps."""
    series = and_(MetricKey.run_id == Metric.run_id, MetricKey.key == Metric.key)
    late = Metric.step > MetricKey.last_step - PACE_STEPS
    query = select(Metric.run_id, func.avg(Metric.value).label("mean")).join(MetricKey, series)
    query = query.where(Metric.key == SECONDS, Metric.run_id.in_(ids), late)
    return {row.run_id: row.mean for row in session.execute(query.group_by(Metric.run_id))}


def _means(session: Session, pairs: Mapping[tuple[str, str], int]) -> dict[tuple[str, int], float | None]:
    """Mean seconds of a step up to ``last``, by run and ``last``. Most pairs are finished and of equal length: they share a query."""
    runs: dict[int, set[str]] = defaultdict(set)
    for pair, last in pairs.items():
        runs[last].update(pair)
    means: dict[tuple[str, int], float | None] = {}
    for last, ids in runs.items():
        means |= {(run_id, last): found.mean for (run_id, _), found in series_sums(session, ids, [SECONDS], range(last + 1)).items()}
    return means
