"""``longtail bench pages``: how long the dashboard's pages take to load, warm, in headless Chromium, with many runs and long ones.

A page is there once its script has come to rest and all its charts are drawn. ``api_s`` is what the API spent on one load.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from backend.bench.server import machine
from backend.database import Database
from backend.demo_data.insertion import fill
from backend.demo_data.planned_runs import MANY_EVERY, POINTS_A_STEP, long_run, planned_runs
from backend.migrate import upgrade
from backend.settings import Settings
from backend.stack.local_stack import Stack
from longtail import Longtail
from longtail.identity import entrance

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

RUNS, QUICK_RUNS = 1_000, 100
POINTS, QUICK_POINTS = 1_000_000, 50_000
LOADS, QUICK_LOADS = 7, 2
COMPARED, COMPARED_STEPS = 10, 1_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
REST_MS, PATIENCE_MS = 300, 120_000
AT_REST = """() => {
    const app = document.querySelector("[data-testid=stApp]"), main = document.querySelector("[data-testid=stMain]");
    const charts = [...document.querySelectorAll("[data-testid=stPlotlyChart]")];
    const still = app?.dataset.testScriptState === "notRunning" && main?.querySelector("h1, h2");
    const whole = still && !main.querySelector("[data-testid=stSkeleton]");
    return whole && charts.every(chart => chart.querySelector("svg.main-svg")) ? performance.now() : null;
}"""
"""Milliseconds since the navigation began; null while the page is not there."""


def run(quick: bool) -> dict[str, Any]:
    """Seconds to load a page: the median, and the longest. ``browser_missing`` tells why there are none."""
    result: dict[str, Any] = machine() | {"browser_missing": missing_browser()}
    if result["browser_missing"]:
        return result
    runs, points, loads = (QUICK_RUNS, QUICK_POINTS, QUICK_LOADS) if quick else (RUNS, POINTS, LOADS)
    with tempfile.TemporaryDirectory(prefix="lt-", dir="/tmp") as home:
        settings = Settings(home=Path(home))
        pages = _filled(settings, runs, points)
        with Stack(settings=settings, port=0, dashboard_port=0) as stack, _browser(stack) as context:
            for name, path in pages.items():
                result |= {f"{name}_{what}": value for what, value in measured(stack, context, path, loads).items()}
    return result | {"runs": runs, "long_run_points": points, "loads": loads, "compare_runs": COMPARED, "compare_steps": COMPARED_STEPS}


def missing_browser() -> str | None:
    """Why pages cannot be measured here."""
    if find_spec("playwright") is None:
        return "not installed: playwright"
    return None if _chromium() else "Chromium is not installed (set CHROMIUM to its path if it is elsewhere)"


def _chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def _filled(settings: Settings, runs: int, points: int) -> dict[str, str]:
    """Fills the database; the paths of the pages by name."""
    now = time.time()
    database = Database(settings.database)
    upgrade(database)
    (long,) = fill(database, [long_run(points, 0, now)])
    compared = fill(database, [long_run(COMPARED_STEPS * POINTS_A_STEP, 0, now, number) for number in range(1, COMPARED + 1)])
    ids = fill(database, planned_runs(runs, 0, now))
    database.close()
    pages = {
        "runs": "/",
        "run": f"/run?id={ids[runs // 2]}",
        "run_200_keys": f"/run?id={ids[MANY_EVERY - 1]}",
        "run_long": f"/run?id={long}",
    }
    return pages | {"compare": f"/compare?runs={','.join(compared)}", "new": "/new"}


@contextmanager
def _browser(stack: Stack) -> "Iterator[BrowserContext]":
    """Logged in."""
    from playwright.sync_api import sync_playwright

    assert stack.dashboard_url is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        context = browser.new_context(base_url=stack.dashboard_url, viewport={"width": 1440, "height": 1000})
        context.set_default_timeout(PATIENCE_MS)
        with Longtail(stack.url, stack.token) as client:
            load(context, entrance(client, stack.dashboard_url))
        yield context
        browser.close()


def measured(stack: Stack, context: "BrowserContext", path: str, loads: int) -> dict[str, float]:
    """The first load warms the page up, and does not count."""
    load(context, path)
    before = api_seconds(stack)
    seconds = [load(context, path) for _ in range(loads)]
    spent = {name: round((now - then) / loads, 3) for (name, now), then in zip(api_seconds(stack).items(), before.values(), strict=True)}
    return {"s": round(median(seconds), 2), "max_s": round(max(seconds), 2)} | spent


def load(context: "BrowserContext", path: str) -> float:
    page = context.new_page()
    page.goto(path)
    seconds = _settled(page)
    page.close()
    return seconds


def _settled(page: "Page") -> float:
    """Seconds from the navigation until the page was at rest, which it stays."""
    while True:
        milliseconds: float = page.wait_for_function(AT_REST, polling="raf").json_value()
        page.wait_for_timeout(REST_MS)
        assert not page.locator("[data-testid=stException]").count(), f"{page.url} shows an error"
        if page.evaluate(AT_REST) is not None:
            return milliseconds / 1000


def api_seconds(stack: Stack) -> dict[str, float]:
    """What the API has spent on requests under /api so far, and how many they were."""
    answer = httpx.get(f"{stack.url}/metrics", headers={"Authorization": f"Bearer {stack.token}"}, trust_env=False)
    families = text_string_to_metric_families(answer.raise_for_status().text)
    samples = [sample for family in families for sample in family.samples if sample.labels.get("route", "").startswith("/api")]
    kinds = {"api_s": "_sum", "api_requests": "_count"}
    return {name: sum(sample.value for sample in samples if sample.name.endswith(kind)) for name, kind in kinds.items()}
