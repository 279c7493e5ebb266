from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from argon2 import PasswordHasher
from bare_model import make_bare_model
from fastapi.testclient import TestClient
from new_token import NewToken
from postgres_for_tests import Postgres
from running_server import Running
from sizes import first

from backend.api import create_app
from backend.database import Database
from backend.services.identity import passwords, users
from backend.services.identity.tokens import issue
from backend.services.runs import submission
from backend.settings import Settings
from engine.config import RunConfig
from longtail import Longtail
from longtail.schemas.identity import Role

DATABASES = ("sqlite", "postgresql")
ON_BOTH = ("services", "maintenance", "backup", "test_database", "test_migrations", "test_hostile_input")
"""Folders and files whose tests are about what is said to a database, and what it makes of values that nobody sends in good faith."""
ABOUT_HTTP = (
    "test_large_artifacts",
    "test_upload_validation",
    "test_sessions",
    "test_revocation",
    "test_membership_check",
    "test_event_stream",
)
"""Files in these folders that are about the way there: PostgreSQL has nothing to add."""


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of ON_BOTH run on either kind of database, the others on SQLite only; with ``make test-all`` all of them on both."""
    if "database_url" in metafunc.fixturenames:
        path = metafunc.definition.path.relative_to(Path(__file__).parent)
        both = not {*path.parts, path.stem}.isdisjoint(ON_BOTH) and path.stem not in ABOUT_HTTP
        metafunc.parametrize("database_url", DATABASES if both else first(1, DATABASES), indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a database that is to be created."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'home' / 'longtail.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.place() as url:
        yield url


@pytest.fixture(scope="session", autouse=True)
def one_event_loop() -> Iterator[None]:
    """For all requests of all clients: each would start a thread with a loop of its own."""
    with start_blocking_portal() as TestClient.portal:
        yield
    TestClient.portal = None


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """How long somebody who guesses is held up is not the tests' subject."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", hasher)
        patch.setattr(passwords, "_NOBODYS", hasher.hash("nobody's"))
        yield


@pytest.fixture(autouse=True)
def no_logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the developer has logged in to is not the tests' business."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("LONGTAIL_TOKEN", raising=False)


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", database_url=database_url, least_free_bytes=0, data_roots=(tmp_path,), model_roots=(tmp_path,))


@pytest.fixture
def bare_database(settings: Settings, request: pytest.FixtureRequest) -> Iterator[Database]:
    """Without tables."""
    if settings.database_url.startswith("postgresql"):
        server: Postgres = request.getfixturevalue("postgres")
        server.create(settings.database)
    database = Database(settings.database)
    yield database
    database.close()


@pytest.fixture
def database(settings: Settings, make_tables: Callable[[str], None]) -> Iterator[Database]:
    make_tables(settings.database)
    database = Database(settings.database)
    yield database
    database.close()


@pytest.fixture
def run_id(database: Database) -> str:
    """A queued run."""
    with database.write() as session:
        run, _ = submission.submit(session, RunConfig(name="first"), submission.SubmissionOptions())
        return run.id


@pytest.fixture
def config(tmp_path: Path) -> dict[str, object]:
    """A configuration that passes every check at submit time."""
    return {"name": "first", "model": {"path": str(make_bare_model(tmp_path / "model"))}, "drafter": {"path": None}}


@pytest.fixture
def new_token(database: Database) -> NewToken:
    """Makes a user of a role; the secret of a token for it."""

    def make(role: Role, name: str = "", scope: Role = "admin", seconds: float | None = None) -> str:
        with database.write() as session:
            return issue(session, users.create(session, name or role, role), "token", "a test's", scope, seconds)[1]

    return make


@pytest.fixture
def anonymous(settings: Settings, database: Database) -> TestClient:  # noqa: ARG001 - the tables have to be there
    """Without a token."""
    return TestClient(create_app(settings), base_url="http://localhost", raise_server_exceptions=False)


@pytest.fixture
def api(anonymous: TestClient, new_token: NewToken) -> TestClient:
    """As an editor."""
    anonymous.headers["Authorization"] = f"Bearer {new_token('editor')}"
    return anonymous


@pytest.fixture
def running(settings: Settings, database: Database) -> Iterator[Running]:  # noqa: ARG001 - the tables have to be there
    """A real server, which has made its admin's token."""
    with Running(settings) as running:
        yield running


@pytest.fixture
def server(running: Running) -> str:
    """Its address."""
    return running.url


@pytest.fixture
def client(server: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Longtail]:
    """As the admin, whom every command of this test is too."""
    monkeypatch.setenv("LONGTAIL_URL", server)
    monkeypatch.setenv("LONGTAIL_TOKEN", settings.token_file.read_text())
    with Longtail() as client:
        yield client
