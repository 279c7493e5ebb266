"""who drafted what

Drafts by drafter, the pieces of a sample that each made, and how often a drafter's best tokens have the target's among them.

Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMNS = (
    *(("speculation", f"ngram_{what}_by_position", sa.JSON) for what in ("drafted", "accepted")),
    *(("drafter_sessions", f"top{most}_{when}", sa.Double) for most in (1, 3) for when in ("before", "after")),
    ("samples", "pieces", sa.JSON),
)


def upgrade() -> None:
    for table, name, kind in COLUMNS:
        op.add_column(table, sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    for table, name, _ in reversed(COLUMNS):
        op.drop_column(table, name)
