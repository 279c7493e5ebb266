"""A headless Chromium for the benchmark of pages: logged in, and what it takes to load a page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from backend.stack.local_stack import Stack
from longtail import Longtail
from longtail.identity import entrance

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Position

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
REST_MS, PATIENCE_MS = 300, 120_000
LOOK_MS = 5_000
FIRST_NAME: "Position" = {"x": 70, "y": 53}
"""Where the name in the first row of the list is, in pixels from the grid's corner."""
AT_REST = """() => {
    const app = document.querySelector("[data-testid=stApp]"), main = document.querySelector("[data-testid=stMain]");
    const charts = [...document.querySelectorAll("[data-testid=stPlotlyChart]")];
    const still = app?.dataset.testScriptState === "notRunning" && main?.querySelector("h1, h2");
    const whole = still && !main.querySelector("[data-testid=stSkeleton]");
    return whole && charts.every(chart => chart.querySelector("svg.main-svg")) ? performance.now() : null;
}"""
"""Milliseconds since the navigation began; null while the page is not there."""


def missing_browser() -> str | None:
    """Why pages cannot be measured here."""
    if find_spec("playwright") is None:
        return "not installed: playwright"
    return None if _chromium() else "Chromium is not installed (set CHROMIUM to its path if it is elsewhere)"


def _chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def visitor(browser: "Browser", stack: Stack) -> "Iterator[BrowserContext]":
    """Logged in, with nothing else in its cache."""
    assert stack.dashboard_url is not None
    context = browser.new_context(base_url=stack.dashboard_url, viewport={"width": 1440, "height": 1000})
    context.set_default_timeout(PATIENCE_MS)
    with Longtail(stack.url, stack.token) as client:
        address = entrance(client, stack.dashboard_url)
    assert context.request.get(address).ok
    yield context
    context.close()


def load(context: "BrowserContext", path: str) -> float:
    """Seconds."""
    page = context.new_page()
    seconds = opened(page, path)
    page.close()
    return seconds


def opened_by_click(context: "BrowserContext", run_id: str) -> float:
    """Seconds from a click on the run in the list until its page was at rest, as for those who have looked at the list for a while."""
    page = context.new_page()
    opened(page, f"/?q={run_id}")
    page.wait_for_timeout(LOOK_MS)
    began: float = page.evaluate("performance.now()")
    grid = page.get_by_test_id("stDataFrame").get_by_test_id("data-grid-canvas")
    grid.click(position=FIRST_NAME, force=True)  # something transparent that scrolls lies above the canvas
    page.wait_for_selector("[data-testid=stMain] .stTabs")
    seconds = at_rest(page) - began / 1000
    page.close()
    return seconds


def opened(page: "Page", path: str) -> float:
    """Seconds from the navigation until the page was at rest, which it stays."""
    page.goto(path)
    return at_rest(page)


def at_rest(page: "Page") -> float:
    """Waits until the page is at rest, and stays so; seconds since the navigation began."""
    while True:
        milliseconds: float = page.wait_for_function(AT_REST, polling="raf").json_value()
        page.wait_for_timeout(REST_MS)
        assert not page.locator("[data-testid=stException]").count(), f"{page.url} shows an error"
        if page.evaluate(AT_REST) is not None:
            return milliseconds / 1000
