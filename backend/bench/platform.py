"""``longtail bench platform``: what everything together costs while it has nothing to do, and how fast a run is cancelled."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from backend.bench.server import machine
from backend.jobs.engine.processes import processes_of_attempt
from backend.services.runs.presets import preset
from backend.settings import Settings
from backend.stack.child_process import members, sessions_below
from backend.stack.home_folder import read_server_file
from backend.stack.local_stack import Stack
from longtail import Longtail

IDLE_SECONDS = 5.0
POLL_SECONDS = 0.05
PARTS = ("api", "worker", "dashboard")
CANCELS, QUICK_CANCELS = 3, 1


def run(quick: bool) -> dict[str, Any]:
    """``platform_idle_mb``: of API, worker and dashboard, a page that they share counted once. ``cancel_s``: from the request until the
    run is cancelled, the slowest one; ``left``: processes of its engine that are there then."""
    result: dict[str, Any] = machine()
    with tempfile.TemporaryDirectory(prefix="lt-", dir="/tmp") as home, Stack(settings=Settings(home=Path(home))) as stack:
        time.sleep(IDLE_SECONDS)
        parts = (read_server_file(stack.settings) or {})["parts"]
        memory = {name: round(family_mb(pid), 1) for name, (pid, _) in zip(PARTS, parts, strict=True)}
        result |= {"platform_idle_mb": round(sum(memory.values()), 1), "idle_parts_mb": memory}
        with Longtail(stack.url, stack.token) as client:
            cancelled = [_cancel(client) for _ in range(QUICK_CANCELS if quick else CANCELS)]
    return result | {"cancel_s": round(max(seconds for seconds, _ in cancelled), 2), "left": sum(left for _, left in cancelled)}


def family_mb(pid: int) -> float:
    """Proportional memory of the process and all below it."""
    return sum(float(psutil.Process(each).memory_full_info().pss) for each in members(sessions_below(pid))) / 2**20


def _cancel(client: Longtail) -> tuple[float, int]:
    """A run that is at work: seconds until it was cancelled, and how many of its processes were left."""
    run_id = client.submit(preset("demo-tlt").config).id
    _until(lambda: client.run(run_id).step >= 1)
    began = time.monotonic()
    client.cancel(run_id)
    _until(lambda: client.run(run_id).finished)
    return time.monotonic() - began, len(processes_of_attempt(run_id, 1, None))


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(POLL_SECONDS)
