"""The dashboard without an API: it says so, and goes on by itself when the API is there."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE_MS, guarded
from playwright.sync_api import Browser, Page, expect

from backend.database import Database
from backend.migrate import upgrade
from backend.parts import Part, answers
from backend.ports import Port
from backend.settings import Settings

HOST = "127.0.0.1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", port=Port(HOST, 0, 0).number)


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    url = f"http://{HOST}:{settings.port}"
    return {**os.environ, "LONGTAIL_URL": url, "LONGTAIL_HOME": str(settings.home), "HOME": str(settings.home)}


@pytest.fixture
def page(browser: Browser, environment: dict[str, str], tmp_path: Path) -> Iterator[Page]:
    """A dashboard whose API is not there."""
    port = Port(HOST, 0, 0).number
    command = (sys.executable, "-m", "dashboard", "--port", str(port))
    dashboard = Part("dashboard", command, environment, tmp_path / "dashboard.log", answers(f"http://{HOST}:{port}/_stcore/health"))
    yield from served(dashboard, browser, f"http://{HOST}:{port}")


def served(dashboard: Part, browser: Browser, url: str) -> Iterator[Page]:
    dashboard.start()
    try:
        dashboard.wait_until_healthy(float("inf"))
        yield from guarded(browser, url)
    finally:
        dashboard.stop()


@pytest.mark.parametrize("address", ["/", "/new", "/run", "/compare"])
def test_a_page_waits_for_the_api_and_comes_back_by_itself(
    page: Page, address: str, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> None:
    page.goto(address)
    expect(page.get_by_text("The Longtail API does not answer")).to_be_visible()
    database = Database(settings.database)
    upgrade(database)
    database.close()
    command = (sys.executable, "-m", "uvicorn", "backend.api.app:create_app", "--factory", "--port", str(settings.port))
    api = Part("api", command, environment, tmp_path / "api.log", answers(f"http://{HOST}:{settings.port}/healthz"))
    api.start()
    try:
        expect(page.get_by_text("The Longtail API does not answer")).to_have_count(0, timeout=PATIENCE_MS)
    finally:
        api.stop()
