"""The dashboard without an API: it says so, and goes on by itself when the API is there, for who was logged in before."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_cases import PATIENCE_MS, guarded
from playwright.sync_api import Browser, Page, expect
from sizes import first

from backend.database import Database
from backend.migrate import upgrade
from backend.models import Token
from backend.services.identity.first_admin import ensure_admin
from backend.services.identity.tokens import identify, open_session
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, answers
from backend.stack.ports import Port

HOST = "127.0.0.1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", port=Port(HOST, 0, 0).number)


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
    port = Port(HOST, 0, 0).number
    command = (sys.executable, "-m", "dashboard", "--port", str(port))
    dashboard = ChildProcess("dashboard", command, environment, tmp_path / "dashboard.log", answers(f"http://{HOST}:{port}/_stcore/health"))
    dashboard.start()
    try:
        dashboard.wait_until_healthy(float("inf"))
        yield from guarded(browser, f"http://{HOST}:{port}", login)
    finally:
        dashboard.stop()


@pytest.mark.parametrize("address", first(1, ["/", "/run", "/new", "/compare"]))
def test_a_page_waits_for_the_api_and_comes_back_by_itself(
    page: Page, address: str, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    page.goto(address)
    expect(page.get_by_text("The Longtail API does not answer")).to_be_visible()
    api = ChildProcess(
        "api", (sys.executable, "-m", "backend.api"), environment, tmp_path / "api.log", answers(f"http://{HOST}:{settings.port}/healthz")
    )
    api.start()
    try:
        expect(page.get_by_text("The Longtail API does not answer")).to_have_count(0, timeout=PATIENCE_MS)
    finally:
        api.stop()
