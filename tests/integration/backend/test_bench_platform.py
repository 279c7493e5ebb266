"""The platform's own benchmarks measure something."""

from sizes import only_with_all

from backend.bench.lists import measured
from backend.bench.server import served


@only_with_all
def test_lists_and_comparisons_are_measured_over_http() -> None:
    with served() as server:
        result = measured(server, runs=240, requests=24)
    assert {name for name, value in result.items() if value > 0} == {
        *("start_s", "idle_mb", "busy_mb"),
        *("list_p50_ms", "list_p99_ms", "compare_p50_ms", "compare_p99_ms"),
    }
