"""the queue

Priorities, owners, labels and start times of runs; pausing, copies, deletion; what workers offer.

Revises: 0004
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _runs() -> list[sa.Column[Any]]:
    return [
        sa.Column("pause_requested", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("needs", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("start_after", sa.Double(), nullable=True),
        sa.Column("queued_at", sa.Double(), nullable=False, server_default="0"),
        sa.Column("claimed_at", sa.Double(), nullable=True),
        sa.Column("parent_id", sa.String(length=16), nullable=True),
        sa.Column("resumed_step", sa.Integer(), nullable=True),
        sa.Column("deleted_at", sa.Double(), nullable=True),
        sa.Column("tidied_at", sa.Double(), nullable=True),
    ]


def _workers() -> list[sa.Column[Any]]:
    return [
        sa.Column("machine", sa.String(length=128), nullable=False, server_default=""),
        sa.Column("labels", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("slots", sa.Integer(), nullable=False, server_default="1"),
    ]


def upgrade() -> None:
    """Column by column: a batch would make the table of runs anew, and SQLite would delete all that hangs on the old one."""
    for column in _runs():
        op.add_column("runs", column)
    for column in _workers():
        op.add_column("workers", column)
    op.execute("UPDATE runs SET queued_at = created_at")
    op.create_index("ix_runs_owner_claimed", "runs", ["owner", "claimed_at"])
    op.create_index("ix_runs_parent_id", "runs", ["parent_id"])


def downgrade() -> None:
    op.drop_index("ix_runs_parent_id", "runs")
    op.drop_index("ix_runs_owner_claimed", "runs")
    for column in reversed(_workers()):
        op.drop_column("workers", column.name)
    for column in reversed(_runs()):
        op.drop_column("runs", column.name)
