"""``longtail bench api``, lists and comparisons: how long their requests take among ten thousand runs, and what the API costs idle."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from backend.bench.filling import fill, fill_series
from backend.bench.server import Server, machine, missing_postgres, postgres, quantile, served

RUNS, QUICK_RUNS = 10_000, 1_000
REQUESTS, QUICK_REQUESTS = 300, 60
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


def run(quick: bool) -> dict[str, Any]:
    """On SQLite, and (if it is there) on PostgreSQL. Each list is asked for, and the page after it."""
    runs, requests = (QUICK_RUNS, QUICK_REQUESTS) if quick else (RUNS, REQUESTS)
    result: dict[str, Any] = machine() | {"list_runs": runs, "list_requests": requests, "compare_runs": COMPARED, "compare_steps": STEPS}
    with served() as server:
        result |= measured(server, runs, requests)
    result["postgres_missing"] = missing_postgres()
    if not result["postgres_missing"]:
        with postgres() as url, served(url) as server:
            result |= {f"postgres_{name}": value for name, value in measured(server, runs, requests).items()}
    return result


def measured(server: Server, runs: int, requests: int) -> dict[str, float]:
    ids = fill(server.database, runs)
    fill_series(server.database, ids[:COMPARED], STEPS)
    starts = [server.start_s]
    for _ in range(STARTS - 1):
        server.part.stop()
        server.start()
        starts.append(server.start_s)
    time.sleep(IDLE_SECONDS)
    result = {"start_s": round(median(starts), 2), "idle_mb": resident_mb(server.part.pid)}
    token = server.settings.token_file.read_text(encoding="utf-8")
    compared = {"baseline": ids[0], "run": ids[1:COMPARED], "keys": CHARTS}
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False) as client:
        asked = iter(_lists(client, requests))
        result |= _quantiles("list", requests, lambda: next(asked))
        result |= _quantiles("compare", requests // 3, lambda: _get(client, "/api/v1/compare", compared))
    return result | {"busy_mb": resident_mb(server.part.pid)}


def resident_mb(pid: int) -> float:
    """Memory of the process alone."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return round(next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024, 1)


def _lists(client: httpx.Client, requests: int) -> Iterator[Any]:
    """Asks for one page after the other, and gives each."""
    page: dict[str, Any] = {}
    for number in range(requests):
        chosen = LISTS[number // 2 % len(LISTS)]
        cursor = {"cursor": page["next_cursor"]} if number % 2 and page["next_cursor"] else {}
        page = _get(client, "/api/v1/runs", chosen | cursor)
        assert page["items"], f"nothing is listed for {chosen}"
        yield page


def _quantiles(name: str, requests: int, ask: Callable[[], Any]) -> dict[str, float]:
    ask()
    taken = []
    for _ in range(requests - 1):
        began = time.monotonic()
        ask()
        taken.append(1000 * (time.monotonic() - began))
    return {f"{name}_p50_ms": round(quantile(taken, 0.5), 1), f"{name}_p99_ms": round(quantile(taken, 0.99), 1)}


def _get(client: httpx.Client, path: str, params: dict[str, Any]) -> Any:
    return client.get(path, params=params).raise_for_status().json()
