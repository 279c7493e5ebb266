"""Alembic environment: runs on the engine that backend.migrate hands over."""

from alembic import context

from backend.models import Base

engine = context.config.attributes["engine"]
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
