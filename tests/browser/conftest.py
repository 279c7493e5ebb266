"""A whole stack with generated telemetry, and a Chromium that may talk to this machine only."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from backend.demo_data import telemetry
from backend.settings import Settings
from backend.stack.local_stack import Stack
from longtail import Longtail
from longtail.schemas.runs import Run

ENGINE = Path(__file__).parents[1] / "replay_engine.py"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LOCAL = {"127.0.0.1", "localhost"}
OFFLINE_SCHEMES = {"data", "blob", "about"}
PROBES = ("/_stcore/health", "/_stcore/host-config")  # Streamlit looks for its server below a deep link first, and finds 404 there
REFUSALS = ("/login",)  # a wrong password is a 401, which Chromium logs
PATIENCE_MS = 120_000

T = TypeVar("T")
Submit = Callable[..., Run]


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
def settings() -> Settings:
    return Settings(engine_command=(sys.executable, str(ENGINE)), concurrency=8)


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    request.getfixturevalue("browser")  # without one, skip before anything is started
    with Stack(home=tmp_path_factory.mktemp("home"), settings=settings, port=0, dashboard_port=0) as stack:
        yield stack


@pytest.fixture(scope="session")
def api(stack: Stack) -> Iterator[Longtail]:
    with Longtail(stack.url, stack.token) as client:
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


def finished(api: Longtail, run: Run) -> Run:
    return until(lambda: api.run(run.id), lambda run: run.finished)


def until(look: Callable[[], T], good: Callable[[T], bool], seconds: float = PATIENCE_MS / 1000) -> T:
    """The first of repeated looks that is good."""
    deadline = time.monotonic() + seconds
    while not good(seen := look()):
        assert time.monotonic() < deadline, f"still {seen}"
        time.sleep(0.1)
    return seen


def drawn(plot: Locator, expression: str) -> Any:
    """What ``expression``, a function of a chart with its ``data`` and ``layout``, gives of the newest drawing; None in the midst of it."""
    looks = f"charts => charts.map(chart => {{ try {{ return ({expression})(chart) }} catch {{ return null }} }})"
    return (plot.evaluate_all(looks) or [None])[-1]


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


def guarded(browser: Browser, url: str, session: str = "") -> Iterator[Page]:
    """A fresh tab. It fails the test if the page asks for anything outside this machine or logs an error."""
    context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    if session:
        name = f"longtail-session-{urlsplit(url).port}"
        context.add_cookies([{"name": name, "value": session, "url": url, "httpOnly": True, "sameSite": "Lax"}])
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    faults: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.location["url"].endswith(PROBES + REFUSALS):
            faults.append(f"console: {message.text} ({message.location['url']})")

    def asked(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in OFFLINE_SCHEMES and address.hostname not in LOCAL:
            faults.append(f"request: {request.url}")

    page.on("console", heard)
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    context.on("request", asked)
    yield page
    context.close()
    assert faults == []
