"""A run's telemetry made again from its events."""

import pytest
from engine_events import begin, started, step, write
from sqlalchemy import delete, select

from backend.backup.archive import BackupError
from backend.backup.rebuild import rebuild_run
from backend.database import Database
from backend.models import Metric, Run, Sample
from backend.settings import Settings


@pytest.fixture
def ended(database: Database, settings: Settings, run_id: str) -> str:
    path = settings.run_folder(run_id) / "events.jsonl"
    path.parent.mkdir(parents=True)
    write(path, started(), *step(0), *step(1))
    begin(database, run_id, path).drain()
    with database.write() as session:
        session.get_one(Run, run_id).state = "succeeded"
    return run_id


def rows(database: Database) -> tuple[int, int]:
    with database.read() as session:
        return len(session.scalars(select(Metric)).all()), len(session.scalars(select(Sample)).all())


def test_what_the_database_has_lost_comes_back(database: Database, settings: Settings, ended: str) -> None:
    before = rows(database)
    assert min(before) > 0
    with database.write() as session:
        session.execute(delete(Metric))
        session.execute(delete(Sample))
    assert rebuild_run(settings, ended) == 2
    assert rows(database) == before


def test_a_run_that_still_goes_on_is_left_alone(database: Database, settings: Settings, ended: str) -> None:
    with database.write() as session:
        session.get_one(Run, ended).state = "running"
    with pytest.raises(BackupError, match=f"run {ended} is running: wait for its end"):
        rebuild_run(settings, ended)


def test_without_events_nothing_is_deleted(database: Database, settings: Settings, ended: str) -> None:
    before = rows(database)
    (settings.run_folder(ended) / "events.jsonl").unlink()
    with pytest.raises(BackupError, match=r"has no events\.jsonl"):
        rebuild_run(settings, ended)
    with pytest.raises(BackupError, match="there is no run 0123"):
        rebuild_run(settings, "0123")
    assert rows(database) == before
