"""``longtail bench api``, the charts: how long the browser's request for one takes, of a run of a million points."""

import math
from collections.abc import Iterator

from backend.bench.server import Server, quantiles
from backend.database import Database
from backend.services.telemetry import metric_storage
from longtail import Longtail
from longtail.schemas.telemetry import Series

AT_ONCE = 5_000


def charts(server: Server, points: int, requests: int) -> dict[str, float]:
    """Milliseconds of a request for one series, in a run that has ``points`` in ten series, and in one that has them in one."""
    found: dict[str, float] = {}
    for name, keys in (("chart", 10), ("chart_long", 1)):
        with server.client() as client:
            run_id = client.begin(name).id
            fill(server.database, run_id, keys, points // keys)
            found |= quantiles(name, _asked(client, run_id, keys, requests))
    return found


def _asked(client: Longtail, run_id: str, keys: int, requests: int) -> Iterator[Series]:
    for number in range(requests):
        (line,) = client.metrics(run_id, [f"metric/{number % keys}"]).series.values()
        assert len(line.steps) > 100, "no chart"
        yield line


def fill(database: Database, run_id: str, keys: int, steps: int) -> None:
    """Gives the run so many series of so many steps, as ingestion would."""
    for first in range(0, steps, AT_ONCE):
        for key in range(keys):
            rows = [
                {"run_id": run_id, "key": f"metric/{key}", "step": step, "value": math.sin(step / 1000) + step % 7}
                for step in range(first, min(first + AT_ONCE, steps))
            ]
            with database.write() as session:
                metric_storage.write_points(session, run_id, rows)
