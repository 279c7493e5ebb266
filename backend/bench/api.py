"""``longtail bench api``: what requests for lists, comparisons and charts take, and what the API costs idle."""

from typing import Any

from backend.bench import charts, lists
from backend.bench.server import Server, machine, on_each_database

RUNS, QUICK_RUNS = 10_000, 1_000
POINTS, QUICK_POINTS = 1_000_000, 100_000
REQUESTS, QUICK_REQUESTS = 300, 60


def run(quick: bool) -> dict[str, Any]:
    """The figures of all of them, of one server; ``postgres_*`` of PostgreSQL, if it is there."""
    runs, points, requests = (QUICK_RUNS, QUICK_POINTS, QUICK_REQUESTS) if quick else (RUNS, POINTS, REQUESTS)

    def measure(server: Server) -> dict[str, Any]:
        return lists.measured(server, runs, requests) | charts.charts(server, points, requests)

    sizes = {"list_runs": runs, "chart_run_points": points, "requests": requests}
    return machine() | sizes | {"compare_runs": lists.COMPARED, "compare_steps": lists.STEPS} | on_each_database(measure)
