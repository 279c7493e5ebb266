"""what may be measured by what

Pairs ignore the number of steps; lists know the reward of the latest steps together; a KL that nobody measured is null, not 0. A run says
what it is at before its first step, and a session of the drafter how far chance may have helped it.

Revises: 0018
"""

import hashlib
import json
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

BATCH = 500
RECENT = 10
PRETRAINING = ("pretrain_minutes", "pretrain_responses", "pretrain_learning_rate", "draft_vocabulary")
RUNS = sa.table(
    "runs", sa.column("id", sa.Text()), sa.column("config", sa.JSON), sa.column("likeness", sa.Text()), sa.column("summary", sa.JSON)
)
METRICS = sa.table("metrics", *(sa.column(name) for name in ("run_id", "key", "step", "value")))
KEYS = sa.table("metric_keys", *(sa.column(name) for name in ("run_id", "key", "value")))
BLOCKS = sa.table("metric_blocks", *(sa.column(name) for name in ("run_id", "key", "numbers", "low", "high", "total")))
FOUND_BY = sa.table("run_values", *(sa.column(name) for name in ("field", "run_id", "text", "number")))
SUMMED = ("reward_recent", "reward_spread")


def upgrade() -> None:
    op.add_column("runs", sa.Column("starting_up", sa.JSON(), nullable=True))
    op.add_column("drafter_sessions", sa.Column("noise", sa.Double(), nullable=True))
    _each_run(lambda run: _change(run, _likeness(run.config, ("steps",)), _summary(run)))


def downgrade() -> None:
    op.drop_column("drafter_sessions", "noise")
    op.drop_column("runs", "starting_up")
    _each_run(lambda run: _change(run, _likeness(run.config, ()), {key: value for key, value in run.summary.items() if key not in SUMMED}))
    op.get_bind().execute(sa.delete(FOUND_BY).where(FOUND_BY.c.field.in_([f"summary.{name}" for name in SUMMED])))


def _each_run(change: Callable[[Any], None]) -> None:
    query, after = sa.select(RUNS.c.id, RUNS.c.config, RUNS.c.summary).order_by(RUNS.c.id).limit(BATCH), ""
    while found := op.get_bind().execute(query.where(RUNS.c.id > after)).all():
        for run in found:
            change(run)
        after = found[-1].id


def _change(run: Any, likeness: str, summary: dict[str, Any]) -> None:
    op.get_bind().execute(sa.update(RUNS).where(RUNS.c.id == run.id).values(likeness=likeness, summary=summary))


def _likeness(config: dict[str, Any], ignored: tuple[str, ...]) -> str:
    found = config.get("speculation")
    speculation = {key: value for key, value in found.items() if key != "enabled"} if isinstance(found, dict) else {}
    rest = {key: value for key, value in config.items() if key not in ("name", "speculation")}
    for name, left_out in (("drafter", PRETRAINING), ("algorithm", ignored)):
        if isinstance(section := rest.get(name), dict):
            rest[name] = {key: value for key, value in section.items() if key not in left_out}
    return hashlib.sha256(json.dumps([rest, speculation], sort_keys=True).encode()).hexdigest()[:16]


def _summary(run: Any) -> dict[str, Any]:
    """With what the latest rewards come to, and without a KL that was not measured."""
    summary = dict(run.summary)
    if isinstance(algorithm := run.config.get("algorithm"), dict) and algorithm.get("kl_coefficient") == 0:
        _forget_kl(run.id)
        summary |= {"kl": None} if "kl" in summary else {}
    mine = (METRICS.c.run_id == run.id, METRICS.c.key == "reward_mean", METRICS.c.value.is_not(None))
    values = op.get_bind().scalars(sa.select(METRICS.c.value).where(*mine).order_by(METRICS.c.step.desc()).limit(RECENT)).all()
    if not values:
        return summary
    found = dict(zip(SUMMED, (fmean(values), stdev(values) if len(values) > 1 else None), strict=True))
    rows = [{"field": f"summary.{name}", "run_id": run.id, "text": json.dumps(value), "number": value} for name, value in found.items()]
    op.get_bind().execute(sa.insert(FOUND_BY), rows)
    return summary | found


def _forget_kl(run_id: str) -> None:
    nothing: dict[str, Any] = {"low": None, "high": None, "total": None, "numbers": 0}
    for table, values in ((METRICS, {"value": None}), (KEYS, {"value": None}), (BLOCKS, nothing)):
        op.get_bind().execute(sa.update(table).where(table.c.run_id == run_id, table.c.key == "kl").values(**values))
    mine = sa.update(FOUND_BY).where(FOUND_BY.c.run_id == run_id, FOUND_BY.c.field == "summary.kl")
    op.get_bind().execute(mine.values(text="null", number=None))
