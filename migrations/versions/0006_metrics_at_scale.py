"""metrics at scale

Runs that scripts track by themselves; series rolled up; log lines found by run and id.

Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEYS = """
INSERT INTO metric_keys (run_id, key, first_step, last_step, value)
SELECT ends.run_id, ends.key, ends.first_step, ends.last_step, metrics.value
FROM (SELECT run_id, key, min(step) AS first_step, max(step) AS last_step FROM metrics GROUP BY run_id, key) AS ends
JOIN metrics ON metrics.run_id = ends.run_id AND metrics.key = ends.key AND metrics.step = ends.last_step
"""
BLOCKS = """
INSERT INTO metric_blocks (run_id, key, block, first_step, points, numbers, low, high, total)
SELECT run_id, key, step / 64, min(step), count(*), count(value), min(value), max(value), sum(value)
FROM metrics GROUP BY run_id, key, step / 64
"""

CLOSE = """
UPDATE runs SET state = 'failed', error = 'the database was downgraded', steps = step + 1 WHERE kind = 'tracked' AND state = 'running'
"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("kind", sa.String(length=16), nullable=False, server_default="engine"))
    op.create_table(
        "metric_keys",
        *_key(),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("last_step", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        *_constraints("metric_keys", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "metric_blocks",
        *_key(),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("numbers", sa.Integer(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("total", sa.Double(), nullable=True),
        *_constraints("metric_blocks", "key", "block"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "batches",
        sa.Column("run_id", sa.String(length=16), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        *_constraints("batches", "id"),
        sqlite_with_rowid=False,
    )
    op.execute(KEYS)
    op.execute(BLOCKS)
    op.create_index("ix_logs_run", "logs", ["run_id", "id"])
    op.drop_index("ix_logs_run_id", "logs")


def downgrade() -> None:
    op.create_index("ix_logs_run_id", "logs", ["run_id"])
    op.drop_index("ix_logs_run", "logs")
    for table in ("batches", "metric_blocks", "metric_keys"):
        op.drop_table(table)
    op.execute(CLOSE)
    op.drop_column("runs", "kind")


def _key() -> tuple[sa.Column[str], sa.Column[str]]:
    return sa.Column("run_id", sa.String(length=16), nullable=False), sa.Column("key", sa.Text(), nullable=False)


def _constraints(table: str, *key: str) -> tuple[sa.Constraint, ...]:
    run = sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f(f"fk_{table}_run_id_runs"), ondelete="CASCADE")
    return run, sa.PrimaryKeyConstraint("run_id", *key, name=op.f(f"pk_{table}"))
