from collections.abc import Iterator
from pathlib import Path

import pytest
from bare_model import make_bare_model
from fastapi.testclient import TestClient
from postgres_for_tests import Postgres

from backend.api import create_app
from backend.database import Database
from backend.migrate import upgrade
from backend.services import runs
from backend.settings import Settings
from engine.config import RunConfig


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of an empty database of either kind, so that every test of the backend runs on both."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'home' / 'longtail.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database() as url:
        yield url


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url, least_free_bytes=0)


@pytest.fixture
def bare_database(settings: Settings) -> Iterator[Database]:
    """Without tables."""
    database = Database(settings.database)
    yield database
    database.close()


@pytest.fixture
def database(bare_database: Database) -> Database:
    upgrade(bare_database)
    return bare_database


@pytest.fixture
def run_id(database: Database) -> str:
    """A queued run."""
    with database.write() as session:
        run, _ = runs.submit(session, RunConfig(name="first"), runs.Wishes())
        return run.id


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    """A configuration that passes every check at submit time."""
    return {"name": "first", "model": {"path": str(make_bare_model(tmp_path / "model"))}, "drafter": {"path": None}}


@pytest.fixture
def api(settings: Settings, database: Database) -> TestClient:  # noqa: ARG001 - the tables have to be there
    return TestClient(create_app(settings), base_url="http://localhost", raise_server_exceptions=False)
