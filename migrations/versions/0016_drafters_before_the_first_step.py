"""drafters before the first step

The rounds of pretraining a drafter, and which drafter of the platform a run took.

Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

WHOLE, LONG, REAL = sa.Integer, sa.BigInteger, sa.Double
TOLD = {"time": REAL, "seconds": REAL, "limit": REAL, "end": REAL, "done": sa.Boolean, "responses": WHOLE, "response_tokens": LONG}
TRAINED = {"microsteps": WHOLE, "tokens": LONG}
MEASURED = ("loss", "held_out", "top1", "top3", "accept_length")


def upgrade() -> None:
    op.create_table(
        "pretraining_rounds",
        sa.Column("run_id", sa.String(length=16), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        *(sa.Column(name, kind(), nullable=False) for name, kind in (TOLD | TRAINED).items()),
        *(sa.Column(name, sa.Double(), nullable=True) for name in MEASURED),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("vocabulary", "drafter_version")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_pretraining_rounds_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "round", name=op.f("pk_pretraining_rounds")),
    )
    op.add_column("runs", sa.Column("lost_round", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("pretraining", sa.JSON(), nullable=True))
    op.add_column("runs", sa.Column("drafter_id", sa.String(length=16), nullable=True))


def downgrade() -> None:
    for name in ("drafter_id", "pretraining", "lost_round"):
        op.drop_column("runs", name)
    op.drop_table("pretraining_rounds")
