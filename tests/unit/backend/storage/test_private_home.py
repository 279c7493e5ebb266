"""What an earlier version has left open to everybody on the machine is closed by whatever starts first."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import make_url

from backend import migrate
from backend.api import create_app
from backend.jobs.worker import JobWorker
from backend.settings import Settings
from backend.stack.home_folder import lock_home
from backend.storage.private_home import tighten_home

CLOSED = "closed to everybody"


def serve(settings: Settings) -> None:
    with TestClient(create_app(settings)):
        pass


def hold(settings: Settings) -> None:
    with lock_home(settings):
        pass


STARTS: dict[str, Callable[[Settings], object]] = {
    "migrations": lambda _: migrate.main([]),
    "the API": serve,
    "a worker": JobWorker,
    "longtail up": hold,
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_tables: Callable[[str], None]) -> Settings:
    """Of a home that everybody may read."""
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    settings = Settings(gpus=())
    make_tables(settings.database)
    for file in (settings.secret_file, settings.token_file):
        file.write_text("00")
    for path in settings.home.iterdir():
        path.chmod(0o644)
    settings.home.chmod(0o755)
    return settings


def modes(settings: Settings) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in (settings.home, *settings.home.glob("*.db"), *settings.home.glob("*[nt]"))}


@pytest.mark.parametrize("start", STARTS)
def test_a_home_that_was_open_to_others_is_closed_at_the_start(settings: Settings, caplog: pytest.LogCaptureFixture, start: str) -> None:
    """The log says so, once."""
    STARTS[start](settings)
    assert modes(settings) == {"home": 0o700, "longtail.db": 0o600, "token": 0o600, "server.secret": 0o600}
    (said,) = (record.getMessage() for record in caplog.records if CLOSED in record.getMessage())
    assert f"{settings.secret_file}, {settings.token_file}, {settings.home}" in said
    caplog.clear()
    STARTS[start](settings)
    assert CLOSED not in caplog.text


def test_a_home_of_another_user_stays_as_it_is(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = modes(settings)
    monkeypatch.setattr(os, "geteuid", lambda: settings.home.stat().st_uid + 1)
    tighten_home(settings)
    assert modes(settings) == before


def test_a_database_in_a_shared_folder_is_closed_and_the_folder_is_not(settings: Settings, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    file = shared / "longtail.db"
    file.touch()
    file.chmod(0o666)
    tighten_home(settings.model_copy(update={"database_url": f"sqlite:///{file}"}))
    assert (shared.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o777, 0o600)


def test_a_folder_that_is_there_for_everybody_stays_open(settings: Settings) -> None:
    """As /tmp, which all programs of a machine need."""
    settings.home.chmod(0o1777)
    tighten_home(settings)
    assert settings.home.stat().st_mode & 0o7777 == 0o1777
    assert settings.token_file.stat().st_mode & 0o777 == 0o600


def test_files_that_go_meanwhile_disturb_nobody(settings: Settings) -> None:
    """SQLite takes its files away whenever nobody has the database open."""
    file = Path(f"{make_url(settings.database).database}-wal")
    ended = threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            file.touch(mode=0o644)
            file.unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(1000):
            tighten_home(settings)
    finally:
        ended.set()
        thread.join()
