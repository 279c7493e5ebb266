"""The platform's benchmarks, small: they run, lose nothing, and say what they measured."""

import subprocess
import sys
from contextlib import ExitStack

import pytest
from sizes import first

from backend.bench.charts import charts
from backend.bench.ingest import KEYS, STEPS, measure
from backend.bench.server import postgres, quantile, served


@pytest.mark.parametrize("kind", first(1, ["sqlite", "postgresql"]))
def test_what_was_acknowledged_outlives_the_server(kind: str) -> None:
    with ExitStack() as stack:
        found = measure("" if kind == "sqlite" else stack.enter_context(postgres()), seconds=0.5, writers=2)
    assert found["lost"] == 0
    assert found["points_s"] > STEPS * len(KEYS)
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert min(found["api_cores"], found["writers_cores"]) > 0


def test_charts_of_a_long_run_are_timed() -> None:
    with served() as server:
        found = charts(server, points=20_000, requests=3)
    assert set(found) == {"chart_p50_ms", "chart_p99_ms", "chart_long_p50_ms", "chart_long_p99_ms"}
    assert min(found.values()) > 0


def test_quantiles() -> None:
    assert [quantile([3, 1, 2], share) for share in (0.0, 0.5, 0.99)] == [1, 2, 3]


def test_an_unknown_benchmark_says_which_there_are() -> None:
    result = subprocess.run([sys.executable, "-m", "backend.bench", "nonsense"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert all(name in result.stderr for name in ("ingest", "api"))
