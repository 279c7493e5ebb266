import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from backend.database import Database
from backend.jobs import outbox
from backend.jobs.celery import make_celery
from backend.jobs.outbox import hurry, ring_due
from backend.models import Doorbell, Worker
from backend.services import control
from backend.settings import Settings


@pytest.fixture
def app(settings: Settings) -> Iterator[Celery]:
    app = make_celery(settings)
    yield app
    app.close()


@pytest.fixture(autouse=True)
def worker(database: Database) -> str:
    """One that is idle, with two slots."""
    with database.write() as session:
        worker = Worker(host="here", pid=1, pid_started=1, labels=["cpu"], slots=2)
        session.add(worker)
        session.flush()
        return worker.id


def messages(settings: Settings) -> list[Path]:
    return sorted((settings.broker_folder / "queue").iterdir())


def test_a_submitted_run_rings_once_until_the_pause_is_over(database: Database, settings: Settings, app: Celery, run_id: str) -> None:
    assert ring_due(database, app) == 1
    assert run_id in messages(settings)[0].read_text()
    assert ring_due(database, app) == 0
    assert len(messages(settings)) == 1


def test_a_lost_message_is_sent_again(database: Database, settings: Settings, app: Celery, run_id: str) -> None:
    ring_due(database, app)
    messages(settings)[0].unlink()
    with database.write() as session:
        session.get_one(Doorbell, run_id).next_ring_at -= outbox.FIRST_PAUSE_SECONDS
    assert ring_due(database, app) == 1
    assert len(messages(settings)) == 1


def test_a_new_worker_does_not_wait_for_the_pause(database: Database, app: Celery, run_id: str) -> None:  # noqa: ARG001
    ring_due(database, app)
    hurry(database)
    assert ring_due(database, app) == 1


def test_pauses_grow_up_to_a_limit(database: Database, app: Celery, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    pauses = []
    for _ in range(6):
        hurry(database)
        ring_due(database, app)
        with database.read() as session:
            pauses.append(round(session.get_one(Doorbell, run_id).next_ring_at - now, 3))
    assert pauses == [5, 10, 20, 40, 60, 60]


def test_nobody_rings_for_a_cancelled_run(database: Database, app: Celery, run_id: str) -> None:
    with database.write() as session:
        control.cancel(session, run_id)
    assert ring_due(database, app) == 0
