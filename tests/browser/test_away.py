"""The dashboard without an API: it says so, and goes on by itself when the API is there, for who was logged in before."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from page_cases import PATIENCE_MS, guarded
from playwright.sync_api import Browser, Page, expect
from sizes import first

from backend.database import Database
from backend.demo_data import telemetry
from backend.demo_data.insertion import fill
from backend.demo_data.planned_runs import PlannedRun, identity
from backend.migrate import upgrade
from backend.models import Token
from backend.services.identity.first_admin import ensure_admin
from backend.services.identity.tokens import identify, open_session
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, answers
from backend.stack.ports import Port
from engine.config import RunConfig

HOST = "127.0.0.1"
AWAY = "The Longtail API does not answer"


@pytest.fixture
def port() -> Iterator[int]:
    """Of the API, for as long as nothing listens there, too."""
    held = Port(HOST, 0, 0)
    yield held.number
    held.release()


@pytest.fixture
def settings(tmp_path: Path, port: int) -> Settings:
    return Settings(home=tmp_path / "home", port=port)


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    url = f"http://{HOST}:{settings.port}"
    own = {"LONGTAIL_URL": url, "LONGTAIL_HOME": str(settings.home), "LONGTAIL_PORT": str(settings.port), "HOME": str(settings.home)}
    return {**os.environ, **own}


@pytest.fixture
def login(settings: Settings) -> str:
    """The secret of an admin's session."""
    database = Database(settings.database)
    upgrade(database)
    ensure_admin(database, settings)
    with database.write() as session:
        identity = identify(session, settings.token_file.read_text())
        assert identity is not None
        token = session.get_one(Token, identity.token_id)
        secret = open_session(session, token.user, 3600, token)[1]
    database.close()
    return secret


@pytest.fixture
def page(browser: Browser, environment: dict[str, str], login: str, tmp_path: Path) -> Iterator[Page]:
    """A dashboard whose API is not there."""
    port = Port(HOST, 0, 0)
    url = f"http://{HOST}:{port.number}"
    command = (sys.executable, "-m", "dashboard", "--port", str(port.number))
    dashboard = ChildProcess("dashboard", command, environment, tmp_path / "dashboard.log", answers(f"{url}/_stcore/health"))
    dashboard.start()
    try:
        dashboard.wait_until_healthy(float("inf"))
        yield from guarded(browser, url, login)
    finally:
        dashboard.stop()
        port.release()


@pytest.mark.parametrize("address", first(1, ["/compare", "/", "/run", "/new"]))
def test_a_page_waits_for_the_api_and_comes_back_by_itself(
    page: Page, address: str, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    page.goto(address)
    expect(page.get_by_text(AWAY)).to_be_visible()
    with answering_api(settings, environment, tmp_path):
        expect(page.get_by_text(AWAY)).to_have_count(0, timeout=PATIENCE_MS)
        expect(page).to_have_url(re.compile(f"{re.escape(address)}(\\?.*)?$"))


def test_so_does_a_page_whose_runs_are_finished(page: Page, settings: Settings, environment: dict[str, str], tmp_path: Path) -> None:
    config = RunConfig.model_validate(telemetry.config(algorithm={"steps": 2}))
    database = Database(settings.database)
    first_run, second_run = fill(database, [PlannedRun(identity(0, number), config, "succeeded", 2, 1.8e9) for number in range(2)])
    database.close()
    with answering_api(settings, environment, tmp_path):
        page.goto(f"/compare?runs={first_run},{second_run}")
        expect(page.get_by_text("Side by side")).to_be_visible()
    page.get_by_role("radio", name="time").click()
    expect(page.get_by_text(AWAY)).to_be_visible()
    with answering_api(settings, environment, tmp_path):
        expect(page.get_by_text("Side by side")).to_be_visible(timeout=PATIENCE_MS)


@contextmanager
def answering_api(settings: Settings, environment: dict[str, str], folder: Path) -> Iterator[None]:
    healthy = answers(f"http://{HOST}:{settings.port}/healthz")
    api = ChildProcess("api", (sys.executable, "-m", "backend.api"), environment, folder / "api.log", healthy)
    api.start()
    try:
        yield
    finally:
        api.stop()
