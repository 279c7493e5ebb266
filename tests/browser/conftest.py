"""A whole stack with generated telemetry, and a Chromium that may talk to this machine only."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_cases import PATIENCE_MS, Submit, finished, guarded
from playwright.sync_api import Browser, Page, expect, sync_playwright

from backend.demo_data import telemetry
from backend.settings import Settings
from backend.stack.local_stack import Stack
from longtail import Longtail
from longtail.schemas.runs import Run

ENGINE = Path(__file__).parents[1] / "replay_engine.py"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (set CHROMIUM to its path if it is elsewhere)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def settings(random_model: Path) -> Settings:
    return Settings(engine_command=(sys.executable, str(ENGINE)), concurrency=8, model_roots=(random_model.parent,))


@pytest.fixture(scope="session")
def stack(
    request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory, random_model: Path
) -> Iterator[Stack]:
    """With a model of the name ``named``."""
    request.getfixturevalue("browser")  # without one, skip before anything is started
    home = tmp_path_factory.mktemp("home")
    (home / "models").mkdir()
    (home / "models" / "named").symlink_to(random_model)
    with Stack(home=home, settings=settings, port=0, dashboard_port=0) as stack:
        yield stack


@pytest.fixture(scope="session")
def api(stack: Stack) -> Iterator[Longtail]:
    with Longtail(stack.url, stack.token) as client:
        client.set_preference("tour", ["seen"])  # it is offered at a first visit only
        yield client


@pytest.fixture(scope="session")
def submit(api: Longtail, random_model: Path) -> Submit:
    """Submits a run of generated telemetry; its name sets the scene (see replay_engine)."""

    def submit(speculation: bool = True, tags: tuple[str, ...] = (), **changes: object) -> Run:
        config = telemetry.config(speculation, model={"path": str(random_model)}, **changes)
        return api.submit(config, tags)

    return submit


@pytest.fixture(scope="session")
def pair(api: Longtail, submit: Submit) -> tuple[Run, Run]:
    """A plain and a TLT run of the same seed, both finished."""
    plain, tlt = (submit(speculation, tags=("pair",), evaluation={"every": 10}) for speculation in (False, True))
    return finished(api, plain), finished(api, tlt)


@pytest.fixture
def page(browser: Browser, stack: Stack, api: Longtail) -> Iterator[Page]:
    """Logged in as an admin."""
    assert stack.dashboard_url is not None
    yield from guarded(browser, stack.dashboard_url, api.log_in_by_token(stack.token).token)


@pytest.fixture
def stranger(browser: Browser, stack: Stack) -> Iterator[Page]:
    """Not logged in."""
    assert stack.dashboard_url is not None
    yield from guarded(browser, stack.dashboard_url)
