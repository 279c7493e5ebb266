from collections.abc import Iterator
from pathlib import Path

import pytest
from bare_model import make_bare_model
from fastapi.testclient import TestClient

from backend.api import create_app
from backend.database import Database
from backend.migrate import upgrade
from backend.models import Run
from backend.services import runs
from backend.settings import Settings
from engine.config import RunConfig


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings.database)
    upgrade(database)
    yield database
    database.close()


@pytest.fixture
def run_id(database: Database) -> str:
    """A queued run."""
    with database.write() as session:
        run, _ = runs.submit(session, RunConfig(name="first"), [])
        return run.id


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    """A configuration that passes every check at submit time."""
    return {"name": "first", "model": {"path": str(make_bare_model(tmp_path / "model"))}, "drafter": {"path": None}}


@pytest.fixture
def api(settings: Settings, database: Database) -> TestClient:  # noqa: ARG001 - the tables have to be there
    return TestClient(create_app(settings), base_url="http://localhost", raise_server_exceptions=False)


def stored(database: Database, run_id: str) -> Run:
    with database.read() as session:
        return session.get_one(Run, run_id)
