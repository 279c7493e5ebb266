"""PostgreSQL for tests, by pip: one server for all of pytest-xdist's workers, a database for each test."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pgserver
from sqlalchemy import create_engine, make_url, text

ROOM_BYTES = 2 * 2**30
FAST = ("fsync", "synchronous_commit", "full_page_writes")


class Postgres:
    """A server in ``folder``, which whoever comes first starts; it ends with the last process that uses it."""

    def __init__(self, folder: Path) -> None:
        self._server = pgserver.get_server(folder, cleanup_mode="delete")  # type: ignore[attr-defined]
        url = self._server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        self._url = url
        self._admin = create_engine(url, isolation_level="AUTOCOMMIT")
        for setting in FAST:  # what a crash of the machine would do to a test database does not matter
            self._execute(f"ALTER SYSTEM SET {setting} = off")
        self._execute("SELECT pg_reload_conf()")

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database."""
        with self.place() as url:
            self.create(url)
            yield url

    @contextmanager
    def place(self) -> Iterator[str]:
        """The URL of a database that can be created; it is gone afterwards."""
        name = f"t{uuid.uuid4().hex}"
        yield self._url.replace("/postgres?", f"/{name}?")
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def create(self, url: str, template: str = "template1") -> None:
        self._execute(f"CREATE DATABASE {make_url(url).database} TEMPLATE {template} STRATEGY file_copy")  # else all goes through the log

    def close(self) -> None:
        self._admin.dispose()
        self._server.cleanup()

    def _execute(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(text(statement))


def shared_folder(base: Path) -> Path:
    """Of a short path, as sockets have, and in memory where there is enough: a database is a thousand files. The same for all processes
    of one pytest session with the temporary folder ``base``."""
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
    folder = (memory if roomy else Path("/tmp")) / f"longtail-pg-{session.parent.name}-{session.name}"
    with suppress(FileExistsError):  # once only: the server that another process starts in it wants it for itself
        folder.mkdir()
        folder.chmod(0o755)  # as root, the server runs as a user of its own
    return folder
