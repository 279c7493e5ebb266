"""the mix of lengths

How close the lengths that a drafter was trained on came to those of a whole step.

Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("drafter_sessions", sa.Column("mix_distance", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("drafter_sessions", "mix_distance")
