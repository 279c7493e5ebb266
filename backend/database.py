"""Transactions. On SQLite every write begins IMMEDIATE, as a read that turns into a write fails whatever the busy timeout; and the writers
of a process stand in line for its one connection, as those that wait for SQLite itself sleep, and come in by luck.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, CursorResult, Engine, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError
from sqlalchemy.orm import Session

from backend.models import Base
from longtail.schemas.credentials import private_folder

BUSY_SECONDS = 15
Insert = sqlite.Insert | postgresql.Insert
LARGEST = 1e300
NO_ANSWER = (OperationalError, InterfaceError, TimeoutError)
"""What is raised when the database does not answer, or has no turn left for who asks."""
IDLE_SECONDS = BUSY_SECONDS
"""After which PostgreSQL ends a transaction whose process says nothing more (frozen, or cut off), with the locks that it holds: no later
than those who wait for them give up."""
APPLICATION = "longtail"
FROZEN = text("""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = :application AND xact_start IS NOT NULL
AND state = 'active' AND wait_event = 'ClientRead' AND state_change <= clock_timestamp() - make_interval(secs => :seconds)
""")


class Database:
    """``write()`` and ``read()`` give a session in a transaction of its own."""

    def __init__(self, url: str) -> None:
        if make_url(url).get_backend_name() == "sqlite":
            one_by_one = {"pool_size": 1, "max_overflow": 0, "pool_timeout": BUSY_SECONDS}
            self.writer = _sqlite(url, "BEGIN IMMEDIATE", "PRAGMA query_only=OFF", one_by_one)
            self.reader = _sqlite(url, "BEGIN", "PRAGMA query_only=ON", {})
        else:
            options = f"-c lock_timeout={BUSY_SECONDS * 1000} -c idle_in_transaction_session_timeout={IDLE_SECONDS * 1000}"
            arguments = {"connect_timeout": BUSY_SECONDS, "options": options, "application_name": APPLICATION}
            self.writer = self.reader = create_engine(url, pool_pre_ping=True, connect_args=arguments)

    @contextmanager
    def write(self) -> Iterator[Session]:
        with Session(self.writer) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        with Session(self.reader) as session:
            yield session

    def end_frozen(self) -> None:
        """Ends the transactions whose process fell silent IDLE_SECONDS ago among the rows of one statement. psycopg sends these in a
        pipeline, and until that is whole PostgreSQL takes the transaction for busy, not for idle."""
        if self.reader.dialect.name == "postgresql":
            with self.read() as session:
                session.execute(FROZEN, {"application": APPLICATION, "seconds": IDLE_SECONDS})

    def close(self) -> None:
        self.writer.dispose()
        self.reader.dispose()


def upsert(session: Session, model: type[Base], rows: Sequence[dict[str, Any]]) -> None:
    """Inserts ``rows``; one whose primary key is taken replaces the others of its columns that it names."""
    if rows:
        statement = _upsert(session.get_bind().dialect.name, model, tuple(rows[0]))
        session.connection().execute(statement, rows)


@cache
def _upsert(dialect: str, model: type[Base], names: tuple[str, ...]) -> Insert:
    """Made once for each use, as making it takes longer than writing a few rows."""
    primary = [column.name for column in model.__table__.primary_key]
    statement = insert_into(dialect, model)
    changed = {name: statement.excluded[name] for name in names if name not in primary}
    return statement.on_conflict_do_update(index_elements=primary, set_=changed)


def insert_into(dialect: str, model: type[Base]) -> Insert:
    """An INSERT that knows ON CONFLICT."""
    kind = sqlite.insert if dialect == "sqlite" else postgresql.insert
    return kind(model.__table__)


def _sqlite(url: str, begin: str, pragma: str, pool: Mapping[str, int]) -> Engine:
    if file := make_url(url).database:
        _make_private(Path(file))
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS}, **pool)

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for each in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "PRAGMA foreign_keys=ON", pragma):
            connection.execute(each)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _make_private(file: Path) -> None:
    """Before SQLite does, which would let everybody read it; the files that it makes beside it get the same mode."""
    private_folder(file.parent)
    if not file.exists():
        file.touch(mode=0o600)


def affected(session: Session, statement: Any) -> int:
    """Executes an UPDATE or DELETE; the number of its rows."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount


def storable_number(value: float | None) -> float | None:
    """None for what is no finite number, or so large that sums of it would not be."""
    return value if value is not None and abs(value) <= LARGEST else None


def storable_text(value: str) -> str:
    """NUL made visible, as PostgreSQL stores none."""
    return value.replace("\0", "\N{SYMBOL FOR NULL}")


def storable_json(value: Any) -> Any:
    """As ``storable_text``, of every text in it."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, list):
        return [storable_json(each) for each in value]
    return {storable_text(name): storable_json(each) for name, each in value.items()} if isinstance(value, dict) else value
