"""keys of submissions by user

Each user has Idempotency-Keys of their own. Those of before are their runs' owners'.

Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLE, PRIMARY = "idempotency_keys", "pk_idempotency_keys"
OWNERS = """
UPDATE idempotency_keys SET user_id = coalesce(
    (SELECT users.id FROM users JOIN runs ON runs.owner = users.name WHERE runs.id = idempotency_keys.run_id), '')
"""
OLDEST = """
DELETE FROM idempotency_keys WHERE EXISTS (
    SELECT 1 FROM idempotency_keys AS other WHERE other.key = idempotency_keys.key AND (
        other.created_at < idempotency_keys.created_at
        OR (other.created_at = idempotency_keys.created_at AND other.user_id < idempotency_keys.user_id)))
"""


def upgrade() -> None:
    with op.batch_alter_table(TABLE) as batch_op:
        batch_op.add_column(sa.Column("user_id", sa.String(length=16), nullable=False, server_default=""))
    op.execute(OWNERS)
    with op.batch_alter_table(TABLE) as batch_op:
        batch_op.alter_column("user_id", server_default=None, existing_type=sa.String(length=16), existing_nullable=False)
        batch_op.drop_constraint(op.f(PRIMARY), type_="primary")
        batch_op.create_primary_key(op.f(PRIMARY), ["user_id", "key"])


def downgrade() -> None:
    op.execute(OLDEST)
    with op.batch_alter_table(TABLE) as batch_op:
        batch_op.drop_constraint(op.f(PRIMARY), type_="primary")
        batch_op.create_primary_key(op.f(PRIMARY), ["key"])
        batch_op.drop_column("user_id")
