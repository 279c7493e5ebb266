"""Alembic environment: runs on the engine that backend.migrate hands over."""

from alembic import context
from sqlalchemy import Connection, text

from backend.models import Base

TURN = 0x10A67A11
"""PostgreSQL's advisory lock of whoever migrates: any number that nothing else in the database uses."""


def wait_for_turn(connection: Connection) -> None:
    """Until nobody else migrates this database, however long that takes. Of SQLite the transaction itself is the turn."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": TURN})
        connection.execute(text("RESET lock_timeout"))


engine = context.config.attributes["engine"]
with engine.begin() as connection:  # before it is looked up what there is to do, and until all is done
    wait_for_turn(connection)
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()
