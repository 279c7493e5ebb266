"""a list of artifacts

Those of all runs, newest first.

Revises: 0012
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_artifacts_list", "artifacts", ["created_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_artifacts_list", "artifacts")
