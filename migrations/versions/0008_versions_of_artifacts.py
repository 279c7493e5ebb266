"""versions of artifacts

An artifact is a version of a name, its content is in the store under its checksum, and its model card can be read.

Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NUMBERED = """
UPDATE artifacts SET version = (
    SELECT count(*) FROM artifacts AS other WHERE other.run_id = artifacts.run_id AND other.name = artifacts.name
    AND (other.created_at < artifacts.created_at OR (other.created_at = artifacts.created_at AND other.id <= artifacts.id))
)
"""


def upgrade() -> None:
    """Nothing refers to artifacts, so their table may be made anew. What is in a run's folder stays there until a worker stores it."""
    with op.batch_alter_table("artifacts") as batch:
        batch.add_column(sa.Column("version", sa.Integer(), nullable=False, server_default="1"))
        batch.add_column(sa.Column("card", sa.Text(), nullable=True))
        batch.add_column(sa.Column("stored_at", sa.Double(), nullable=True))
        batch.add_column(sa.Column("missing_since", sa.Double(), nullable=True))
        batch.alter_column("path", existing_type=sa.Text(), nullable=True)
        batch.drop_constraint("uq_artifacts_run_id", type_="unique")
    op.execute(NUMBERED)
    with op.batch_alter_table("artifacts") as batch:
        batch.create_unique_constraint("uq_artifacts_version", ["run_id", "name", "version"])
        batch.create_index("ix_artifacts_sha256", ["sha256"])


def downgrade() -> None:
    op.execute("UPDATE artifacts SET path = 'artifacts/' || id WHERE path IS NULL OR version > 1")
    with op.batch_alter_table("artifacts") as batch:
        batch.drop_index("ix_artifacts_sha256")
        batch.drop_constraint("uq_artifacts_version", type_="unique")
        batch.create_unique_constraint("uq_artifacts_run_id", ["run_id", "path"])
        batch.alter_column("path", existing_type=sa.Text(), nullable=False)
        for name in ("missing_since", "stored_at", "card", "version"):
            batch.drop_column(name)
