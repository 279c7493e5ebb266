"""what was done about tails

Marks on the timeline: responses ordered, carried over and stopped.

Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("decoding", sa.Column("marks", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("decoding", "marks")
