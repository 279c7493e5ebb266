import threading

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError, OperationalError

from backend.database import Database, upsert
from backend.models import Attempt, Metric, Run


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
