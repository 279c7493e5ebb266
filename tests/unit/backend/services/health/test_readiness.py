"""/readyz: each fault by its name, with what to do."""

import os
import socket
import time
from pathlib import Path

import pytest
from celery import Celery

from backend.database import Database
from backend.jobs.celery import make_celery
from backend.models import Worker
from backend.services.health import readiness
from backend.services.health.readiness import Readiness
from backend.settings import Settings


def look(database: Database, settings: Settings) -> dict[str, str | None]:
    return dict(Readiness(database, make_celery(settings), settings).faults())


def add_worker(database: Database, age: float) -> None:
    with database.write() as session:
        session.add(Worker(host="h", pid=1, pid_started=1, seen_at=time.time() - age))


def test_all_is_well(database: Database, settings: Settings) -> None:
    add_worker(database, 1)
    assert look(database, settings) == dict.fromkeys(("database", "migrations", "worker", "broker", "disk"))


@pytest.mark.parametrize("age", [None, 16.0])
def test_no_worker(database: Database, settings: Settings, age: float | None) -> None:
    if age is not None:
        add_worker(database, age)
    fault = look(database, settings)["worker"]
    assert fault is not None
    assert "python -m backend.jobs.worker" in fault


def test_not_migrated(bare_database: Database, settings: Settings) -> None:
    faults = look(bare_database, settings)
    assert "python -m backend.migrate" in (faults["migrations"] or "")
    assert "worker" not in faults, "nobody can know"


def test_no_database(settings: Settings, tmp_path: Path) -> None:
    away = Database(f"sqlite:///{tmp_path}")
    faults = look(away, settings.model_copy(update={"home": tmp_path}))
    assert "LONGTAIL_DATABASE_URL" in (faults["database"] or "")
    assert faults["disk"] is None, "what does not need the database is looked at all the same"


def test_no_space(database: Database, settings: Settings) -> None:
    fault = look(database, settings.model_copy(update={"least_free_bytes": 2**62}))["disk"]
    assert fault is not None
    assert "LONGTAIL_LEAST_FREE_BYTES" in fault


def test_no_home(database: Database, settings: Settings, tmp_path: Path) -> None:
    fault = look(database, settings.model_copy(update={"home": tmp_path / "nowhere", "broker_url": "memory://"}))["disk"]
    assert "LONGTAIL_HOME" in (fault or "")


def test_no_broker_and_nobody_asks_it_all_the_time(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("redis", reason="the extra redis is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        settings.home.mkdir(exist_ok=True)
        away = settings.model_copy(update={"broker_url": f"redis://:secret@127.0.0.1:{taken.getsockname()[1]}/0"})
        asked = []
        connect = Celery.connection_for_write
        monkeypatch.setattr(readiness, "REMEMBERED_SECONDS", 600.0)
        monkeypatch.setattr(Celery, "connection_for_write", lambda *a, **o: asked.append(1) or connect(*a, **o))  # type: ignore[func-returns-value]
        asking = Readiness(database, make_celery(away), away)
        faults = [asking.faults()["broker"] for _ in range(5)]
    assert "LONGTAIL_BROKER_URL" in (faults[0] or "")
    assert "secret" not in (faults[0] or "")
    assert len(set(faults)) == len(asked) == 1


def test_a_home_that_cannot_be_written(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    true = os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != settings.home and true(path, mode))  # to root no folder is closed
    assert "cannot be written" in (look(database, settings)["broker"] or "")
