"""``longtail bench api``, lists and comparisons: how long their requests take among ten thousand runs, and what the API costs idle."""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import httpx
import psutil

from backend.bench.server import Server, quantiles
from backend.demo_data.insertion import fill
from backend.demo_data.planned_runs import POINTS_A_STEP, long_run, planned_runs

STARTS = 3
COMPARED, STEPS = 10, 1_000
IDLE_SECONDS = 2.0
LISTS: tuple[dict[str, Any], ...] = (
    {},
    {"state": "failed", "sort": "-summary.reward_mean"},
    {"tag": "ablation", "sort": "name"},
    {"q": "diverged", "sort": "-duration"},
    {"where": "config.algorithm.learning_rate<0.00001", "sort": "-summary.step_seconds"},
    {"owner": "anna", "state": ["succeeded", "failed"], "where": "config.model.path=small", "sort": "summary.accept_length"},
)
CHARTS = "reward_mean,accept_length,response_tokens"


def measured(server: Server, runs: int, requests: int) -> dict[str, float]:
    now = time.time()
    fill(server.database, planned_runs(runs, 0, now), last=1)
    ids = fill(server.database, [long_run(STEPS * POINTS_A_STEP, 0, now, number) for number in range(COMPARED)])
    starts = [server.start_s]
    for _ in range(STARTS - 1):
        server.part.stop()
        server.start()
        starts.append(server.start_s)
    time.sleep(IDLE_SECONDS)
    result = {"start_s": round(median(starts), 2), "idle_mb": resident_mb(server.part.pid)}
    token = server.settings.token_file.read_text(encoding="utf-8")
    compared = {"baseline": ids[0], "run": ids[1:], "keys": CHARTS}
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False) as client:
        result |= quantiles("list", _lists(client, requests))
        result |= quantiles("compare", (_get(client, "/api/v1/compare", compared) for _ in range(requests // 3)))
    return result | {"busy_mb": resident_mb(server.part.pid)}


def resident_mb(pid: int) -> float:
    """Memory of the process alone."""
    return round(float(psutil.Process(pid).memory_info().rss) / 2**20, 1)


def _lists(client: httpx.Client, requests: int) -> Iterator[Any]:
    """Asks for one page after the other, and gives each."""
    page: dict[str, Any] = {}
    for number in range(requests):
        chosen = LISTS[number // 2 % len(LISTS)]
        cursor = {"cursor": page["next_cursor"]} if number % 2 and page["next_cursor"] else {}
        page = _get(client, "/api/v1/runs", chosen | cursor)
        assert page["items"], f"nothing is listed for {chosen}"
        yield page


def _get(client: httpx.Client, path: str, params: dict[str, Any]) -> Any:
    return client.get(path, params=params).raise_for_status().json()
