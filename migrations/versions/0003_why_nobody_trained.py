"""why nobody trained

Why no idle worker trained the drafter in a step's tail.

Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("speculation", sa.Column("untrained", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("speculation", "untrained")
