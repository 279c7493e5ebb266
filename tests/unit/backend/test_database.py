import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError, OperationalError

from backend.database import Database, upsert
from backend.jobs.celery import make_folders
from backend.models import Attempt, Metric, Run
from backend.settings import Settings
from backend.stack.home_folder import child_environment
from backend.storage.staging import staging
from longtail.schemas.credentials import write_private


def test_writers_that_read_first_wait_for_each_other(database: Database, run_id: str) -> None:
    """A deferred transaction that turns from reading to writing fails with "database is locked"; ours must not."""

    def count() -> None:
        for _ in range(50):
            with database.write() as session:
                run = session.get_one(Run, run_id, with_for_update=True)
                run.step += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert session.get_one(Run, run_id).step == 200


def test_reading_goes_on_while_somebody_writes(database: Database, run_id: str) -> None:
    with database.write() as session:
        session.execute(update(Run).values(step=9))
        with database.read() as reader:
            assert reader.get_one(Run, run_id).step == 0


def test_a_reader_cannot_write(database: Database, run_id: str) -> None:
    if database.reader is database.writer:
        pytest.skip("only SQLite has an engine of its own for reading")
    with database.read() as session, pytest.raises(OperationalError):
        session.execute(update(Run).where(Run.id == run_id).values(step=1))


def test_foreign_keys_are_kept(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as session:
        session.add(Attempt(run_id="f" * 16, number=1))


def test_upsert_replaces_by_primary_key(database: Database, run_id: str) -> None:
    for value in (1.0, 2.0):
        with database.write() as session:
            upsert(session, Metric, [{"run_id": run_id, "key": "loss", "step": 0, "value": value}])
    with database.read() as session:
        assert session.get_one(Metric, (run_id, "loss", 0)).value == 2.0


def take_an_upload(settings: Settings) -> None:
    with staging(settings.home / "store" / "incoming"):
        pass


FIRST: dict[str, Callable[[Settings], object]] = {
    "the database": lambda settings: Database(settings.database).close(),
    "the broker": make_folders,
    "a token": lambda settings: write_private(settings.token_file, "secret"),
    "a stack": child_environment,
    "an upload": take_an_upload,
}


@pytest.mark.parametrize("first", FIRST)
def test_whoever_makes_the_home_makes_it_for_its_owner_only(tmp_path: Path, first: str) -> None:
    home = tmp_path / "new" / "home"
    before = os.umask(0o022)
    try:
        FIRST[first](Settings(home=home))
    finally:
        os.umask(before)
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_new_sqlite_database_is_its_owners_only(tmp_path: Path) -> None:
    file = tmp_path / "longtail.db"
    with closing(Database(f"sqlite:///{file}")) as database, database.writer.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE secrets (text TEXT)")
        files = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert files == dict.fromkeys(("longtail.db", "longtail.db-wal", "longtail.db-shm"), 0o600)
