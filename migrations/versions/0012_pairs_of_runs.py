"""pairs of runs

What a run's plain baseline is found by.

Revises: 0011
"""

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

BATCH = 500


def upgrade() -> None:
    op.add_column("runs", sa.Column("plain", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("runs", sa.Column("likeness", sa.String(length=16), nullable=False, server_default=""))
    _fill()
    op.create_index("ix_runs_pair", "runs", ["likeness", "plain", "project_id", "created_at"])


def downgrade() -> None:
    op.drop_index("ix_runs_pair", "runs")
    op.drop_column("runs", "likeness")
    op.drop_column("runs", "plain")


def _fill() -> None:
    connection = op.get_bind()
    names = (sa.column("id", sa.Text()), sa.column("config", sa.JSON), sa.column("plain", sa.Boolean()), sa.column("likeness", sa.Text()))
    runs = sa.table("runs", *names)
    change = sa.update(runs).where(runs.c.id == sa.bindparam("of_run"))
    query, after = sa.select(runs.c.id, runs.c.config).order_by(runs.c.id).limit(BATCH), ""
    while found := connection.execute(query.where(runs.c.id > after)).all():
        connection.execute(change, [{"of_run": run_id, **_pair(config)} for run_id, config in found])
        after = found[-1].id


def _pair(config: Any) -> dict[str, Any]:
    found = config.get("speculation")
    speculation = found if isinstance(found, dict) else {}
    rest = {key: value for key, value in config.items() if key not in ("name", "speculation")}
    parts = [rest, {key: value for key, value in speculation.items() if key != "enabled"}]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return {"plain": not speculation.get("enabled", True), "likeness": digest[:16]}
