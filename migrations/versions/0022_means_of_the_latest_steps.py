"""means of the latest steps

Lists are sorted by the seconds and the accept length of a run's latest ten steps together: those of one step are noise.

Revises: 0021
"""

import json
from collections.abc import Callable
from statistics import fmean
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

BATCH = 500
RECENT = 10
MEANS = {"step_seconds_recent": "step_seconds", "accept_recent": "accept_length"}
RUNS = sa.table("runs", *(sa.column(name) for name in ("id", "kind", "finished_at")), sa.column("summary", sa.JSON))
METRICS = sa.table("metrics", *(sa.column(name) for name in ("run_id", "key", "step", "value")))
FOUND_BY = sa.table("run_values", *(sa.column(name) for name in ("field", "run_id", "text", "number")))


def upgrade() -> None:
    _each_run(_sum_up)


def downgrade() -> None:
    _each_run(lambda run: _keep(run, {key: value for key, value in run.summary.items() if key not in MEANS}))
    op.get_bind().execute(sa.delete(FOUND_BY).where(FOUND_BY.c.field.in_([f"summary.{key}" for key in MEANS])))


def _each_run(change: Callable[[Any], None]) -> None:
    """But those of scripts that are under way: nobody sums these up before their end."""
    summed_up = (RUNS.c.kind != "tracked") | RUNS.c.finished_at.is_not(None)
    query, after = sa.select(RUNS.c.id, RUNS.c.summary).where(summed_up).order_by(RUNS.c.id).limit(BATCH), ""
    while found := op.get_bind().execute(query.where(RUNS.c.id > after)).all():
        for run in found:
            change(run)
        after = found[-1].id


def _sum_up(run: Any) -> None:
    means = {key: mean for key, series in MEANS.items() if (mean := _mean(run, series)) is not None}
    rows = [{"field": f"summary.{key}", "run_id": run.id, "text": json.dumps(mean), "number": mean} for key, mean in means.items()]
    if rows:
        _keep(run, run.summary | means)
        told_by_a_script = FOUND_BY.c.field.in_([row["field"] for row in rows])
        op.get_bind().execute(sa.delete(FOUND_BY).where(FOUND_BY.c.run_id == run.id, told_by_a_script))
        op.get_bind().execute(sa.insert(FOUND_BY), rows)


def _mean(run: Any, series: str) -> float | None:
    """Without a step, what the summary says: the accept length that training the drafter lets expect."""
    mine = (METRICS.c.run_id == run.id, METRICS.c.key == series, METRICS.c.value.is_not(None))
    values = op.get_bind().scalars(sa.select(METRICS.c.value).where(*mine).order_by(METRICS.c.step.desc()).limit(RECENT)).all()
    return fmean(values) if values else run.summary.get(series)


def _keep(run: Any, summary: dict[str, Any]) -> None:
    op.get_bind().execute(sa.update(RUNS).where(RUNS.c.id == run.id).values(summary=summary))
