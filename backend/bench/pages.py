"""``longtail bench pages``: how long the dashboard's pages take to load in headless Chromium, with many runs and long ones, what the first
visit costs, what an open page costs, and how the API bears fifty of them.

A page is there once its script has come to rest and all its charts are drawn. ``api_s`` is what the API spent on one load.
"""

import tempfile
import time
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from backend.bench.browser import chromium, load, missing_browser, opened, opened_by_click, visitor
from backend.bench.cold_pages import cold_run
from backend.bench.crowd import QUICK_SECONDS, SECONDS, crowd
from backend.bench.server import machine
from backend.database import Database
from backend.demo_data.insertion import fill
from backend.demo_data.planned_runs import MANY_EVERY, NEWEST, POINTS_A_STEP, PlannedRun, long_run, planned_runs
from backend.migrate import upgrade
from backend.settings import Settings
from backend.stack.local_stack import Stack

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

RUNS, QUICK_RUNS = 10_000, 100
POINTS, QUICK_POINTS = 1_000_000, 50_000
LOADS, QUICK_LOADS = 7, 2
COMPARED, COMPARED_STEPS = 10, 1_000
LIVE_STEPS, LIVE_NUMBER = 30, COMPARED + 2
IDLE_SECONDS = 20.0


def run(quick: bool) -> dict[str, Any]:
    """Seconds to load a page: the median, and the longest. ``browser_missing`` tells why there are none."""
    result: dict[str, Any] = machine() | {"browser_missing": missing_browser()}
    if result["browser_missing"]:
        return result
    runs, points, loads = (QUICK_RUNS, QUICK_POINTS, QUICK_LOADS) if quick else (RUNS, POINTS, LOADS)
    with tempfile.TemporaryDirectory(prefix="lt-", dir="/tmp") as home:
        settings = Settings(home=Path(home))
        with closing(Database(settings.database)) as database:
            upgrade(database)
            live = followed_run(time.time())
            pages = _filled(database, runs, points, live)
            with Stack(settings=settings, port=0, dashboard_port=0) as stack:
                with chromium() as browser:
                    with visitor(browser, stack) as context:
                        for name, path in pages.items():
                            result |= {f"{name}_{what}": value for what, value in measured(stack, context, path, loads).items()}
                        result["list_click_s"] = click_seconds(context, pages["run"].partition("=")[2], loads)
                        result |= {
                            f"idle_{name}_requests_s": requests_of_an_open_page(stack, context, pages[name]) for name in ("list", "live")
                        }
                    result |= cold_run(browser, stack, pages["run"])
                result |= crowd(stack, database, live, QUICK_SECONDS if quick else SECONDS)
    return result | {"runs": runs, "long_run_points": points, "loads": loads, "compare_runs": COMPARED, "compare_steps": COMPARED_STEPS}


def followed_run(now: float) -> PlannedRun:
    """A run that is under way."""
    plan = long_run(POINTS_A_STEP * 100 * LIVE_STEPS, 0, now, LIVE_NUMBER)
    return replace(plan, state="running", step=LIVE_STEPS, until=now)


def _filled(database: Database, runs: int, points: int, live: PlannedRun) -> dict[str, str]:
    """Fills the database, and tells all of the newest runs only; the paths of the pages by name."""
    now = time.time()
    (long,) = fill(database, [long_run(points, 0, now)])
    compared = fill(database, [long_run(COMPARED_STEPS * POINTS_A_STEP, 0, now, number) for number in range(1, COMPARED + 1)])
    plans = planned_runs(runs, 0, now)
    fill(database, islice(plans, max(runs - NEWEST, 0)), last=1)
    ids = fill(database, plans)
    fill(database, [live])
    pages = {
        "list": "/",
        "run": f"/run?id={ids[len(ids) // 2]}",
        "run_200_keys": f"/run?id={ids[MANY_EVERY - 1]}",
        "run_long": f"/run?id={long}",
        "live": f"/run?id={live.id}",
    }
    return pages | {"compare": f"/compare?runs={','.join(compared)}", "new": "/new"}


def measured(stack: Stack, context: "BrowserContext", path: str, loads: int) -> dict[str, float]:
    """The first load warms the page up, and does not count."""
    load(context, path)
    before = api_seconds(stack)
    seconds = [load(context, path) for _ in range(loads)]
    spent = {name: round((now - then) / loads, 3) for (name, now), then in zip(api_seconds(stack).items(), before.values(), strict=True)}
    return {"s": round(median(seconds), 2), "max_s": round(max(seconds), 2)} | spent


def click_seconds(context: "BrowserContext", run_id: str, clicks: int) -> float:
    """From the list to a run's page: the median. The first one warms up."""
    opened_by_click(context, run_id)
    return round(median(opened_by_click(context, run_id) for _ in range(clicks)), 2)


def requests_of_an_open_page(stack: Stack, context: "BrowserContext", path: str, seconds: float = IDLE_SECONDS) -> float:
    """In a second, while nothing happens to what it shows."""
    page = context.new_page()
    opened(page, path)
    began, before = time.monotonic(), api_seconds(stack)["api_requests"]
    page.wait_for_timeout(1000 * seconds)
    after, took = api_seconds(stack)["api_requests"], time.monotonic() - began
    page.close()
    return round((after - before) / took, 2)


def api_seconds(stack: Stack) -> dict[str, float]:
    """What the API has spent on requests under /api so far, and how many they were."""
    answer = httpx.get(f"{stack.url}/metrics", headers={"Authorization": f"Bearer {stack.token}"}, trust_env=False)
    families = text_string_to_metric_families(answer.raise_for_status().text)
    samples = [sample for family in families for sample in family.samples if sample.labels.get("route", "").startswith("/api")]
    kinds = {"api_s": "_sum", "api_requests": "_count"}
    return {name: sum(sample.value for sample in samples if sample.name.endswith(kind)) for name, kind in kinds.items()}
