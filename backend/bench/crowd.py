"""``longtail bench pages``, many visitors: how fast the API answers while fifty browsers follow a run that goes on."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from multiprocessing import get_context
from typing import Any
from urllib.parse import urlsplit

import httpx

from backend.bench.server import quantile
from backend.database import Database
from backend.demo_data import insertion, telemetry
from backend.demo_data.planned_runs import PlannedRun
from backend.stack.local_stack import Stack
from engine.events import Log, RunStarted
from longtail import Longtail

VISITORS = 50
STEP_SECONDS = 2.0
"""Of the run that they follow."""
ARRIVAL_SECONDS, SECONDS, QUICK_SECONDS = 25.0, 40.0, 10.0
APART_SECONDS = 0.1
ROUTES = ("", "/metrics?keys=reward_mean,step_seconds", "/lengths?since_step=-1", "/drafters?since_step=-1")
"""What the page of a run asks for."""


def crowd(stack: Stack, database: Database, plan: PlannedRun, seconds: float) -> dict[str, float]:
    """Milliseconds of a request beside theirs, and how many of theirs were answered in a second."""
    assert stack.dashboard_url is not None
    with Longtail(stack.url, stack.token) as client:
        session = client.log_in_by_token(stack.token).token
    cookie = f"longtail-session-{urlsplit(stack.dashboard_url).port}={session}"
    whole = ARRIVAL_SECONDS + seconds
    visit = [stack.dashboard_url, cookie, "run", f"id={plan.id}", str(VISITORS), str(whole)]
    with _going_on(database, plan):
        visitors = subprocess.Popen([sys.executable, "-m", "backend.bench.visitors", *visit], stdout=subprocess.PIPE, text=True)
        time.sleep(ARRIVAL_SECONDS)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # the thread that writes would keep an interpreter of its own waiting
            taken = pool.submit(asked, stack.url, stack.token, plan.id, seconds).result()
        told, _ = visitors.communicate(timeout=60)
    found: dict[str, Any] = json.loads(told)
    assert not found["silent"], f"{found['silent']} of {VISITORS} visitors did not see the page"
    p50, p99 = (round(1000 * quantile(taken, share), 1) for share in (0.5, 0.99))
    return {"api_p50_ms_50": p50, "api_p99_ms_50": p99, "answers_per_s_50": round(found["answers"] / whole, 1)}


@contextmanager
def _going_on(database: Database, plan: PlannedRun) -> Iterator[None]:
    """The run makes a step every STEP_SECONDS."""
    over = threading.Event()

    def write() -> None:
        config, step, seq = plan.config.model_dump(mode="json"), plan.step, insertion.last_seq(database, plan.id)
        while not over.wait(STEP_SECONDS):
            events = telemetry.events(config, step + 1, time.time(), first=step)
            with database.write() as session:
                seq = insertion.tell(session, plan.id, [event for event in events if not isinstance(event, RunStarted | Log)], seq)
            step += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def asked(url: str, token: str, run_id: str, seconds: float) -> list[float]:
    """Seconds of each request, one after the other."""
    taken, until, routes = [], time.monotonic() + seconds, cycle(ROUTES)
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False) as client:
        while (began := time.monotonic()) < until:
            client.get(f"/api/v1/runs/{run_id}{next(routes)}").raise_for_status()
            taken.append(time.monotonic() - began)
            time.sleep(APART_SECONDS)
    return taken
