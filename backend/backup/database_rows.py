"""A database's rows as JSON lines, from one moment, and back into a database of either kind."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import JSON, Connection, Integer, MetaData, Table, delete, func, insert, inspect, select, text

from backend.database import Database
from backend.models import Base

BATCH = 10_000


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A connection that sees the database as it was at its first query, while others go on writing."""
    with database.reader.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        yield connection


def dump(connection: Connection) -> Iterator[tuple[str, Sequence[str], bytes]]:
    """(table, columns, rows as JSON arrays, a line each) in batches, a table after those that it refers to."""
    for table in Base.metadata.sorted_tables:
        columns = [column.name for column in table.columns]
        found = connection.execution_options(yield_per=BATCH).execute(select(table))
        for rows in found.partitions():
            yield table.name, columns, "".join(json.dumps(list(row), separators=(",", ":")) + "\n" for row in rows).encode()


def load(connection: Connection, name: str, columns: Sequence[str], lines: bytes) -> int:
    """The number of rows. The table is looked up in the database, as that of an older version may have others than ours."""
    table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
    for column in table.columns:
        if isinstance(column.type, JSON):
            column.type.none_as_null = True
    rows = [dict(zip(columns, json.loads(line), strict=True)) for line in lines.splitlines()]
    connection.execute(insert(table), rows)
    return len(rows)


def clear(connection: Connection) -> None:
    """Takes out what the migrations themselves have put in: the backup has it, too."""
    for table in reversed(_there(connection)):
        connection.execute(delete(table))


def renumber(connection: Connection) -> None:
    """PostgreSQL's counters go on after the numbers that were loaded."""
    if connection.dialect.name != "postgresql":
        return
    for table in _there(connection):
        for column in table.primary_key:
            if isinstance(column.type, Integer):
                sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
                last = connection.scalar(select(func.max(column)))
                if sequence and last:
                    connection.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})


def is_empty(database: Database) -> bool:
    """Whether no run and no user is there, or not even tables."""
    with database.reader.connect() as connection:
        there = inspect(connection).get_table_names()
        return not any(connection.scalar(select(1).select_from(text(name)).limit(1)) for name in ("runs", "users") if name in there)


def _there(connection: Connection) -> list[Table]:
    """Our tables, as far as the database, which may be that of an older version, has them."""
    names = inspect(connection).get_table_names()
    return [table for table in Base.metadata.sorted_tables if table.name in names]
