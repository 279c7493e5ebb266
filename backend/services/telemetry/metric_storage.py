"""Series of points, as they are written: beside each point, where its series ends, and a roll-up of every BLOCK_STEPS steps.

The last block of a series, which still fills up, is rolled up only when the series leaves it; so a point costs the same however long its
series is, and a reader takes the points of the last block, and the roll-ups of those before.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Integer, String, bindparam, delete, func, insert, literal, select, text
from sqlalchemy.orm import Session

from backend.database import Insert, affected, insert_into, upsert
from backend.models import Metric, MetricBlock, MetricKey

BLOCK_STEPS = 64
RUN, KEY, BLOCK = bindparam("of_run", type_=String), bindparam("of_key", type_=String), bindparam("number", type_=Integer)
NAMES = ("run_id", "key", "block")
ROLL_UP = {
    "first_step": func.min(Metric.step),
    "points": func.count(),
    "numbers": func.count(Metric.value),
    "low": func.min(Metric.value),
    "high": func.max(Metric.value),
    "total": func.sum(Metric.value),
}
ROWS = """
INSERT INTO metrics (run_id, key, step, value) VALUES (?, ?, ?, ?) ON CONFLICT (run_id, key, step) DO UPDATE SET value = excluded.value
"""
ARRAYS = text("""
INSERT INTO metrics (run_id, key, step, value)
SELECT :run_id, * FROM unnest(CAST(:keys AS text[]), CAST(:steps AS integer[]), CAST(:values AS double precision[]))
ON CONFLICT (run_id, key, step) DO UPDATE SET value = excluded.value
""")
ENDS = select(MetricKey.key, MetricKey.first_step, MetricKey.last_step, MetricKey.value).where(
    MetricKey.run_id == RUN, MetricKey.key.in_(bindparam("keys", expanding=True))
)
Points = Mapping[int, float | None]


class SeriesExtent(NamedTuple):
    """Of a series: its first and last step, and its latest value."""

    first_step: int
    last_step: int
    value: float | None

    def grown(self, points: Points) -> "SeriesExtent":
        last = max(points)
        value = points[last] if last >= self.last_step else self.value
        return SeriesExtent(min(self.first_step, *points), max(self.last_step, last), value)


def write_points(session: Session, run_id: str, rows: Sequence[dict[str, Any]]) -> dict[str, SeriesExtent]:
    """Writes the rows of Metric, all of this run; a point that is there already is replaced. How the series end now, by key."""
    points: dict[str, dict[int, float | None]] = {}
    for row in rows:
        points.setdefault(row["key"], {})[row["step"]] = row["value"]
    found = session.connection().execute(ENDS, {"of_run": run_id, "keys": [*points]})
    before = {key: SeriesExtent(first, last, value) for key, first, last, value in found}
    after = {key: before.get(key, SeriesExtent(min(new), max(new), new[max(new)])).grown(new) for key, new in points.items()}
    _write(session, run_id, points)
    upsert(session, MetricKey, [{"run_id": run_id, "key": key, **end._asdict()} for key, end in after.items()])
    _roll_up(session, run_id, {key: _left(before.get(key), after[key], new) for key, new in points.items()})
    return after


def forget_points(session: Session, run_id: str, from_step: int) -> None:
    """Goes with the deletion of a run's points from ``from_step`` on."""
    affected(session, delete(MetricBlock).where(MetricBlock.run_id == run_id, MetricBlock.block >= from_step // BLOCK_STEPS))
    affected(session, delete(MetricKey).where(MetricKey.run_id == run_id))
    first, last = func.min(Metric.step).label("first"), func.max(Metric.step).label("last")
    ends = select(Metric.key, first, last).where(Metric.run_id == run_id).group_by(Metric.key).subquery()
    at_end = (Metric.run_id == run_id) & (Metric.key == ends.c.key) & (Metric.step == ends.c.last)
    found = select(literal(run_id), ends.c.key, ends.c.first, ends.c.last, Metric.value).join(Metric, at_end)
    session.execute(insert(MetricKey).from_select(["run_id", "key", "first_step", "last_step", "value"], found))


def _left(old: SeriesExtent | None, new: SeriesExtent, points: Points) -> set[int]:
    """The blocks that have changed, and the one that was the last, but for the one that is now."""
    touched = {step // BLOCK_STEPS for step in points} | ({old.last_step // BLOCK_STEPS} if old else set())
    return touched - {new.last_step // BLOCK_STEPS}


def _write(session: Session, run_id: str, points: Mapping[str, Points]) -> None:
    """By the driver's own means, as this is most of what comes in: on PostgreSQL as arrays, as it takes longer over a statement than over
    a row."""
    flat = [(key, step, value) for key, new in points.items() for step, value in new.items()]
    if session.get_bind().dialect.name == "postgresql":
        keys, steps, values = zip(*flat, strict=True)
        session.connection().execute(ARRAYS, {"run_id": run_id, "keys": [*keys], "steps": [*steps], "values": [*values]})
    else:
        session.connection().exec_driver_sql(ROWS, [(run_id, *point) for point in flat])


def _roll_up(session: Session, run_id: str, blocks: Mapping[str, set[int]]) -> None:
    wanted = [{"of_run": run_id, "of_key": key, "number": block} for key, numbers in blocks.items() for block in sorted(numbers)]
    if wanted:
        session.connection().execute(_rolled_up(session.get_bind().dialect.name), wanted)


@cache
def _rolled_up(dialect: str) -> Insert:
    start = BLOCK * BLOCK_STEPS
    inside = (Metric.run_id == RUN, Metric.key == KEY, Metric.step >= start, Metric.step < start + BLOCK_STEPS)
    statement = insert_into(dialect, MetricBlock).from_select([*NAMES, *ROLL_UP], select(RUN, KEY, BLOCK, *ROLL_UP.values()).where(*inside))
    return statement.on_conflict_do_update(index_elements=NAMES, set_={name: statement.excluded[name] for name in ROLL_UP})
