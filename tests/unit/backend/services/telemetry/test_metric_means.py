"""Runs side by side over the same steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backend.database import Database
from backend.services.telemetry import metric_storage
from backend.services.telemetry.metric_means import aligned_metrics


@pytest.fixture
def pair(api: TestClient, config: dict[str, Any]) -> list[str]:
    return [api.post("/api/v1/runs", json={"config": config | {"name": name}}).json()["id"] for name in ("plain", "tlt")]


def write(database: Database, run_id: str, key: str, values: Mapping[int, float | None]) -> None:
    rows = [{"run_id": run_id, "key": key, "step": step, "value": value} for step, value in values.items()]
    with database.write() as session:
        metric_storage.write_points(session, run_id, rows)


def values_of(database: Database, runs: Sequence[str], key: str, points: int) -> tuple[int, list[int], list[list[float | None]]]:
    with database.read() as session:
        (metric,) = aligned_metrics(session, runs, [key], points)
    return metric.span, metric.steps, [metric.values[run] for run in runs]


def test_few_steps_are_shown_as_they_are(database: Database, pair: list[str]) -> None:
    write(database, pair[0], "loss", {0: 1.0, 1: 2.0, 3: None})
    write(database, pair[1], "loss", {1: 5.0, 2: 6.0})
    assert values_of(database, pair, "loss", 500) == (1, [0, 1, 2, 3], [[1.0, 2.0, None, None], [None, 5.0, 6.0, None]])


def test_many_steps_are_means_over_the_same_spans(database: Database, pair: list[str]) -> None:
    write(database, pair[0], "loss", {step: float(step) for step in range(10, 110)})
    write(database, pair[1], "loss", dict.fromkeys(range(48, 80), 1.0))
    span, steps, (first, second) = values_of(database, pair, "loss", 10)
    assert (span, steps) == (16, [10, *range(16, 110, 16)])
    assert first == [12.5, *(step + 7.5 for step in range(16, 96, 16)), 102.5]
    assert second == [None] * 3 + [1.0, 1.0] + [None] * 2


def test_very_many_are_means_over_whole_blocks_but_for_what_still_grows(database: Database, pair: list[str]) -> None:
    """The second run ends within a block that the first one has left behind."""
    write(database, pair[0], "loss", {step: float(step) for step in range(5000)})
    write(database, pair[1], "loss", dict.fromkeys(range(70), 1.0))
    write(database, pair[1], "loss", dict.fromkeys(range(60, 700), 2.0))
    span, steps, (first, second) = values_of(database, pair, "loss", 100)
    assert (span, steps) == (64, list(range(0, 5000, 64)))
    assert first == [*(step + 31.5 for step in steps[:-1]), pytest.approx((steps[-1] + 4999) / 2)]
    assert second == [pytest.approx((60 + 2 * 4) / 64), *[2.0] * 10, *[None] * (len(steps) - 11)]


@pytest.mark.parametrize("points", [1, 3, 7, 99, 100, 101, 2000])
def test_there_are_never_more_points_than_asked_for(database: Database, pair: list[str], points: int) -> None:
    write(database, pair[0], "loss", dict.fromkeys(range(100), 1.0))
    _, steps, _ = values_of(database, pair, "loss", points)
    assert len(steps) <= points
    assert len(steps) > min(points, 100) / 2


def test_a_comparison_has_the_metrics_asked_for(api: TestClient, database: Database, pair: list[str]) -> None:
    for run_id, seconds in zip(pair, (4.0, 2.0), strict=True):
        write(database, run_id, "step_seconds", dict.fromkeys(range(4), seconds))
    query: dict[str, Any] = {"baseline": pair[0], "run": pair, "keys": "step_seconds,nothing", "points": 2}
    found = api.get("/api/v1/compare", params=query).json()
    assert found["metrics"] == [{"key": "step_seconds", "span": 2, "steps": [0, 2], "values": {pair[0]: [4.0, 4.0], pair[1]: [2.0, 2.0]}}]
    assert [item["e2e_speedup"] for item in found["items"]] == [1.0, 2.0]
    assert api.get("/api/v1/compare", params={"baseline": pair[0], "run": pair}).json()["metrics"] == []


@pytest.mark.parametrize("change", [{"points": 0}, {"points": 2001}, {"keys": ",".join(map(str, range(21)))}, {"run": ["0" * 16] * 11}])
def test_a_comparison_has_its_bounds(api: TestClient, pair: list[str], change: dict[str, Any]) -> None:
    assert api.get("/api/v1/compare", params={"baseline": pair[0], "run": pair} | change).status_code == 422
