"""which run has which GPU

What workers offer, what runs take, and what each attempt has. Runs that still wait take as many as their configuration says.

Revises: 0017
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("gpus", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("attempts", sa.Column("gpus", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("runs", sa.Column("gpus", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("gpu_only", sa.Boolean(), nullable=False, server_default=sa.false()))
    _fill()


def downgrade() -> None:
    for table, name in (("runs", "gpu_only"), ("runs", "gpus"), ("attempts", "gpus"), ("workers", "gpus")):
        op.drop_column(table, name)


def _fill() -> None:
    connection = op.get_bind()
    names = (sa.column("id", sa.Text()), sa.column("config", sa.JSON), sa.column("gpus", sa.Integer()), sa.column("gpu_only", sa.Boolean()))
    runs = sa.table("runs", *names, sa.column("kind", sa.Text()), sa.column("state", sa.Text()))
    goes_on = runs.c.kind == "engine", runs.c.state.in_(("queued", "starting", "running", "paused"))
    change = sa.update(runs).where(runs.c.id == sa.bindparam("of_run"))
    for run_id, config in connection.execute(sa.select(runs.c.id, runs.c.config).where(*goes_on)).all():
        connection.execute(change, {"of_run": run_id, **_taken(config)})


def _taken(config: dict[str, Any]) -> dict[str, Any]:
    cluster, rollout = config.get("cluster", {}), config.get("rollout", {})
    device, sglang = cluster.get("device", "auto"), rollout.get("engine") == "sglang"
    if device == "cpu" or cluster.get("ray_address"):
        return {"gpus": 0, "gpu_only": False}
    ranks = rollout.get("sglang", {}).get("tensor_parallel", 1) if sglang else 1
    return {"gpus": cluster.get("workers", 2) * ranks, "gpu_only": sglang or device == "cuda"}
