"""Series as they are written and read: the envelope in SQL against the same by hand."""

import math
from itertools import groupby
from statistics import fmean
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sizes import examples
from sqlalchemy import delete

from backend.database import Database
from backend.models import Metric
from backend.services.runs.submission import SubmissionOptions, submit
from backend.services.telemetry import metric_series, metric_storage
from backend.services.telemetry.metric_series import downsampled, metric_keys
from engine.config import RunConfig
from longtail.schemas.tracking import LARGEST_STEP

Held = dict[int, float | None]
VALUES = st.none() | st.floats(-1e6, 1e6)


def new_run(database: Database) -> str:
    with database.write() as session:
        return submit(session, RunConfig(name="another"), SubmissionOptions())[0].id


def add(database: Database, run_id: str, key: str, points: Held) -> None:
    rows = [{"run_id": run_id, "key": key, "step": step, "value": value} for step, value in points.items()]
    with database.write() as session:
        metric_storage.write_points(session, run_id, rows)


def take_back(database: Database, run_id: str, from_step: int) -> None:
    """As ingestion does for an attempt that does these steps again."""
    with database.write() as session:
        session.execute(delete(Metric).where(Metric.run_id == run_id, Metric.step >= from_step))
        metric_storage.forget_points(session, run_id, from_step)


@st.composite
def batches(draw: st.DrawFn) -> Held:
    """Of one series: a stretch of steps, every one or every so many of them."""
    first, stride = draw(st.integers(0, 700)), draw(st.sampled_from([1, 1, 3, 64, 130]))
    return {first + stride * number: value for number, value in enumerate(draw(st.lists(VALUES, min_size=1, max_size=150)))}


changes = st.lists(batches() | st.integers(0, 900), min_size=1, max_size=8)


def by_hand(held: Held, width: int) -> list[tuple[int, float | None, float | None, float | None]]:
    """First step, least, greatest and mean value of each bucket."""
    found = []
    for _, bucket in groupby(sorted(held), lambda step: step // width):
        steps = list(bucket)
        numbers = [value for step in steps if (value := held[step]) is not None]
        low, high, mean = (min(numbers), max(numbers), fmean(numbers)) if numbers else (None, None, None)
        found.append((steps[0], low, high, mean))
    return found


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes, st.integers(-1, 900), st.integers(1, 60))
def test_an_envelope_is_that_of_the_points(database: Database, changes: list[Any], since: int, points: int) -> None:
    run_id, held = new_run(database), Held()
    for change in changes:
        if isinstance(change, int):
            take_back(database, run_id, change)
            held = {step: value for step, value in held.items() if step < change}
        else:
            add(database, run_id, "loss", change)
            held |= change
    with database.read() as session:
        found, keys = downsampled(session, run_id, [], since, points), metric_keys(session, run_id)
    assert [(key.points, key.last_step, key.value) for key in keys] == ([(len(held), max(held), held[max(held)])] if held else [])
    wanted = {step: value for step, value in held.items() if step > since}
    if not wanted:
        assert found == {}
        return
    line = found["loss"]
    if len(wanted) <= points:
        assert (dict(zip(line.steps, line.values, strict=True)), line.width, line.low) == (wanted, 1, [])
        return
    expected = by_hand(wanted, line.width)
    assert [*zip(line.steps, line.low, line.high, strict=True)] == [bucket[:3] for bucket in expected]
    assert line.values == [mean if mean is None else pytest.approx(mean, rel=1e-9, abs=1e-3) for _, _, _, mean in expected]
    assert len(line.steps) <= points
    half, first = line.width // 2, max(min(held), since + 1)
    assert max(held) // half - first // half >= points, "no wider than it has to be"


def test_series_do_not_mix(database: Database, run_id: str) -> None:
    other = new_run(database)
    for name, factor in (("a", 1.0), ("b", 10.0)):
        add(database, run_id, name, {step: factor * step for step in range(500)})
        add(database, other, name, dict.fromkeys(range(500), -1.0))
    with database.read() as session:
        found = downsampled(session, run_id, ["b"], -1, 10)
    assert list(found) == ["b"]
    assert (found["b"].high[-1], found["b"].width) == (4990.0, 64)


def test_a_growing_series_keeps_its_buckets(database: Database, run_id: str) -> None:
    add(database, run_id, "loss", {step: math.sin(step) for step in range(1000)})
    with database.read() as session:
        before = downsampled(session, run_id, [], -1, 100)["loss"]
    add(database, run_id, "loss", {step: math.sin(step) for step in range(1000, 1500)})
    with database.read() as session:
        after = downsampled(session, run_id, [], -1, 100)["loss"]
    assert after.width == before.width
    assert after.high[: len(before.steps) - 1] == before.high[:-1]


def test_of_many_series_each_has_fewer_points(database: Database, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_series, "MOST_VALUES", 100)
    for number in range(10):
        add(database, run_id, f"series {number}", dict.fromkeys(range(64), 1.0))
    with database.read() as session:
        found = downsampled(session, run_id, [], -1, 1000)
    assert len(found) == 10
    assert {len(line.steps) for line in found.values()} == {8}


def test_all_steps_that_there_may_be_fit_into_one_point(api: TestClient, database: Database, run_id: str) -> None:
    for key in ("loss", "eval"):
        add(database, run_id, key, {0: 1.0, LARGEST_STEP: 3.0})
    series = api.get(f"/api/v1/runs/{run_id}/metrics?points=1").json()["series"]
    assert [(line["steps"], line["values"]) for line in series.values()] == [([0], [2.0])] * 2
    compared = api.get("/api/v1/compare", params={"baseline": run_id, "run": run_id, "keys": "loss", "points": 1}).json()["metrics"]
    assert [(line["steps"], line["values"]) for line in compared] == [([0], {run_id: [2.0]})]


def test_the_api_gives_series_and_their_keys(api: TestClient, database: Database, run_id: str) -> None:
    add(database, run_id, "loss", {step: float(step) for step in range(3000)})
    add(database, run_id, "eval", {0: 1.0, 2000: None})
    asked = api.get(f"/api/v1/runs/{run_id}/metrics").json()["series"]
    assert asked["eval"] == {"steps": [0, 2000], "values": [1.0, None], "low": [], "high": [], "width": 1}
    assert (asked["loss"]["width"], len(asked["loss"]["steps"]), asked["loss"]["high"][0], asked["loss"]["values"][0]) == (4, 750, 3.0, 1.5)
    new = api.get(f"/api/v1/runs/{run_id}/metrics?keys=loss&since_step=2997&points=5").json()["series"]
    assert new["loss"]["steps"] == [2998, 2999]
    assert api.get(f"/api/v1/runs/{run_id}/metrics/keys").json()["items"] == [
        {"key": "eval", "first_step": 0, "last_step": 2000, "value": None, "points": 2},
        {"key": "loss", "first_step": 0, "last_step": 2999, "value": 2999.0, "points": 3000},
    ]
    assert api.get(f"/api/v1/runs/{run_id}/metrics?points=0").status_code == 422


def test_the_api_gives_series_whose_keys_begin_alike(api: TestClient, database: Database, run_id: str) -> None:
    """The wildcards of SQL are letters like any other."""
    for key in ("system/a/cpu", "system/b/cpu", "systems", "loss", "50%_x", "500_x"):
        add(database, run_id, key, {0: 1.0})
    for prefix, keys in (("system/", {"system/a/cpu", "system/b/cpu"}), ("50%_", {"50%_x"}), ("_", set())):
        assert api.get(f"/api/v1/runs/{run_id}/metrics", params={"prefix": prefix}).json()["series"].keys() == keys
    asked = api.get(f"/api/v1/runs/{run_id}/metrics", params={"prefix": "system", "keys": "loss,systems"}).json()
    assert set(asked["series"]) == {"systems"}
