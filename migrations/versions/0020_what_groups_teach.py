"""what groups teach

Rewards beside lengths, what a sample's group came to, what users keep for themselves, and webhooks of one project.

Revises: 0019
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

SAMPLE: dict[str, sa.types.TypeEngine[Any]] = {
    "prompt_number": sa.Integer(),
    "group_rewards": sa.JSON(),
    "advantage": sa.Double(),
    "tokens": sa.Integer(),
    "truncated": sa.Boolean(),
}


def upgrade() -> None:
    op.add_column("rollouts", sa.Column("rewards", sa.JSON(), nullable=True))
    for name, kind in SAMPLE.items():
        op.add_column("samples", sa.Column(name, kind, nullable=True))
    op.add_column("webhooks", sa.Column("project_id", sa.String(length=16), nullable=True))
    op.create_table(
        "preferences",
        sa.Column("user_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_preferences_user_id_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "name", name=op.f("pk_preferences")),
    )


def downgrade() -> None:
    op.drop_table("preferences")
    op.execute("DELETE FROM webhook_deliveries WHERE webhook_id IN (SELECT id FROM webhooks WHERE project_id IS NOT NULL)")
    op.execute("DELETE FROM webhooks WHERE project_id IS NOT NULL")  # without their project they would hear of all runs
    op.drop_column("webhooks", "project_id")
    for name in reversed(SAMPLE):
        op.drop_column("samples", name)
    op.drop_column("rollouts", "rewards")
