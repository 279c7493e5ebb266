"""``longtail bench api``, the charts: how long the browser's request for one takes, of a run of a million points."""

import math
import time
from typing import Any

from backend.bench.server import Server, machine, missing_postgres, postgres, quantile, served
from backend.database import Database
from backend.services import series

POINTS, QUICK_POINTS = 1_000_000, 100_000
REQUESTS, QUICK_REQUESTS = 200, 40
AT_ONCE = 5_000


def run(quick: bool) -> dict[str, Any]:
    """On SQLite, and (null if it is missing) on PostgreSQL: a chart of one series of ten, and of one that has all points."""
    points, requests = (QUICK_POINTS, QUICK_REQUESTS) if quick else (POINTS, REQUESTS)
    result: dict[str, Any] = machine() | {"chart_run_points": points, "chart_requests": requests}
    with served() as server:
        result |= charts(server, points, requests)
    result["postgres_missing"] = missing_postgres()
    if not result["postgres_missing"]:
        with postgres() as url, served(url) as server:
            result |= {f"postgres_{name}": value for name, value in charts(server, points, requests).items()}
    return result


def charts(server: Server, points: int, requests: int) -> dict[str, float]:
    """Milliseconds of a request for one series, in a run that has ``points`` in ten series, and in one that has them in one."""
    found: dict[str, float] = {}
    for name, keys in (("chart", 10), ("chart_long", 1)):
        with server.client() as client:
            run_id = client.begin(name).id
            fill(server.database, run_id, keys, points // keys)
            taken = []
            for number in range(requests):
                began = time.monotonic()
                answer = client.metrics(run_id, [f"metric/{number % keys}"])
                taken.append(1000 * (time.monotonic() - began))
                assert sum(len(one.steps) for one in answer.series.values()) > 100, "no chart"
        found |= {f"{name}_p50_ms": round(quantile(taken, 0.5), 1), f"{name}_p99_ms": round(quantile(taken, 0.99), 1)}
    return found


def fill(database: Database, run_id: str, keys: int, steps: int) -> None:
    """Gives the run so many series of so many steps, as ingestion would."""
    for first in range(0, steps, AT_ONCE):
        for key in range(keys):
            rows = [
                {"run_id": run_id, "key": f"metric/{key}", "step": step, "value": math.sin(step / 1000) + step % 7}
                for step in range(first, min(first + AT_ONCE, steps))
            ]
            with database.write() as session:
                series.add(session, run_id, rows)
