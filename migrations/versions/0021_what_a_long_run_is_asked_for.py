"""what a long run is asked for

The samples of a step, and how many drafter versions were published, without a look at all of the run's.

Revises: 0020
"""

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_samples_run_step", "samples", ["run_id", "step", "seq"])
    op.create_index("ix_drafter_sessions_published", "drafter_sessions", ["run_id", "published"])


def downgrade() -> None:
    op.drop_index("ix_drafter_sessions_published", "drafter_sessions")
    op.drop_index("ix_samples_run_step", "samples")
