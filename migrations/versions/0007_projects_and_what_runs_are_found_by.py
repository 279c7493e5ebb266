"""projects, and what runs are found by

Projects and their members, with one that all runs and users of before belong to; notes and revisions of runs; an index and a table for
lists; what attempts ran in.

Revises: 0005
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

DEFAULT = "0000000000000001"
BATCH = 500


def _runs() -> list[sa.Column[Any]]:
    return [
        sa.Column("project_id", sa.String(length=16), nullable=False, server_default=DEFAULT),
        sa.Column("notes", sa.Text(), nullable=False, server_default=""),
        sa.Column("revision", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("source", sa.JSON(), nullable=True),
    ]


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("archived_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("name", name=op.f("uq_projects_name")),
    )
    op.create_table(
        "memberships",
        sa.Column("user_id", sa.String(length=16), nullable=False),
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memberships_user_id_users"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_memberships_project_id_projects"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "project_id", name=op.f("pk_memberships")),
    )
    op.create_table(
        "run_values",
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("run_id", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("number", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_values_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("field", "run_id", name=op.f("pk_run_values")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_run_values_run_id"), "run_values", ["run_id"])
    op.add_column("tokens", sa.Column("project_id", sa.String(length=16), nullable=True))
    op.add_column("attempts", sa.Column("environment", sa.JSON(), nullable=True))
    for column in _runs():
        op.add_column("runs", column)
    op.drop_index("ix_runs_created", "runs")
    wanted = ["created_at", "id", "deleted_at", "project_id", "state", "owner", "started_at", "finished_at", "name"]
    op.create_index("ix_runs_list", "runs", wanted)
    _take_over()


def downgrade() -> None:
    op.drop_index("ix_runs_list", "runs")
    op.create_index("ix_runs_created", "runs", ["created_at", "id"])
    for column in reversed(_runs()):
        op.drop_column("runs", column.name)
    op.drop_column("attempts", "environment")
    op.drop_column("tokens", "project_id")
    for table in ("run_values", "memberships", "projects"):
        op.drop_table(table)


def _take_over() -> None:
    """What is there already goes to the default project, and can be found."""
    connection = op.get_bind()
    insert = sa.text("INSERT INTO projects (id, name, description, created_at) VALUES (:id, 'default', '', :now)")
    connection.execute(insert, {"id": DEFAULT, "now": time.time()})
    connection.execute(sa.text("INSERT INTO memberships (user_id, project_id, role) SELECT id, :id, 'editor' FROM users"), {"id": DEFAULT})
    texts = sa.Text()
    runs = sa.table("runs", sa.column("id", texts), sa.column("config", sa.JSON), sa.column("summary", sa.JSON), sa.column("tags", sa.JSON))
    values = sa.table(
        "run_values", sa.column("field", texts), sa.column("run_id", texts), sa.column("text", texts), sa.column("number", sa.Double())
    )
    after = ""
    while found := connection.execute(sa.select(runs).where(runs.c.id > after).order_by(runs.c.id).limit(BATCH)).all():
        rows = [row for run in found for row in _values(*run)]
        if rows:
            connection.execute(sa.insert(values), rows)
        after = found[-1].id


def _values(run_id: str, config: Any, summary: Any, tags: list[str]) -> Iterator[dict[str, Any]]:
    leaves = {**dict(_leaves(config, "config.")), **dict(_leaves(summary, "summary.")), **{f"tags.{tag}": "" for tag in tags}}
    for field, value in leaves.items():
        text = (value if isinstance(value, str) else json.dumps(value)).replace("\0", "\N{SYMBOL FOR NULL}")
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        yield {"field": field, "run_id": run_id, "text": text, "number": number}


def _leaves(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
