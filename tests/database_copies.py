"""Databases for tests, each the copy of one that was filled once: that takes milliseconds, and to go through the migrations a second."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from postgres_for_tests import Postgres
from sqlalchemy import make_url

from backend.database import Database
from backend.migrate import upgrade
from longtail.schemas.credentials import private_folder


class DatabaseCopies:
    """Keeps the originals of SQLite below ``folder``, and those of PostgreSQL in ``postgres``, which is asked for when it is needed."""

    def __init__(self, folder: Path, postgres: Callable[[], Postgres]) -> None:
        self._folder, self._postgres = folder, postgres
        self._originals: dict[tuple[str, str], str] = {}

    def make(self, url: str, name: str = "migrated", fill: Callable[[Database], object] = lambda _: None) -> None:
        """Creates the database at ``url`` with all tables and with what ``fill`` puts into it, once for each ``name``."""
        kind = make_url(url).get_backend_name()
        if (kind, name) not in self._originals:
            self._originals[kind, name] = self._original(kind, name, fill)
        original = make_url(self._originals[kind, name]).database
        if kind == "postgresql":
            self._postgres().create(url, str(original))
            return
        file = Path(str(make_url(url).database))
        private_folder(file.parent)
        shutil.copyfile(str(original), file)
        file.chmod(0o600)

    def _original(self, kind: str, name: str, fill: Callable[[Database], object]) -> str:
        with ExitStack() as places:
            url = places.enter_context(self._postgres().place()) if kind == "postgresql" else f"sqlite:///{self._folder / name}.db"
            if name != "migrated":
                self.make(url)
            elif kind == "postgresql":
                self._postgres().create(url)
            database = Database(url)
            if name == "migrated":
                upgrade(database)
            fill(database)
            database.close()
            places.pop_all()  # it goes with the server
        return url
