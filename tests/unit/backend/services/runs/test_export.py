"""Tables to take away, in every form the same rows."""

import csv
import io
import json
import tracemalloc
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pyarrow import parquet
from sqlalchemy import insert, select, update

from backend.database import Database
from backend.models import Metric, Project, Run
from backend.services.runs import export
from backend.services.runs.export_formats import Column, as_csv, as_json
from backend.services.runs.listing import RunFilter

Rows = list[dict[str, Any]]


def read(form: str, content: bytes) -> Rows:
    """As JSON would have it: an empty cell of a CSV is null."""
    if form == "json":
        return list(json.loads(content))
    if form == "parquet":
        return list(parquet.read_table(io.BytesIO(content)).to_pylist())
    return [{name: value or None for name, value in row.items()} for row in csv.DictReader(io.StringIO(content.decode()))]


def take(api: TestClient, what: str, form: str, **query: Any) -> Rows:
    reply = api.get(f"/api/v1/export/{what}", params={"format": form} | query)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-disposition"] == f'attachment; filename="longtail-{what}.{form}"'
    return read(form, reply.content)


def points(database: Database, run_id: str, key: str, values: list[float | None]) -> None:
    rows = [{"run_id": run_id, "key": key, "step": step, "value": value} for step, value in enumerate(values)]
    with database.write() as session:
        session.execute(insert(Metric), rows)


@pytest.fixture
def two(api: TestClient, database: Database, config: dict[str, Any]) -> list[str]:
    plain = {"name": "plain", "seed": 3, "speculation": {"enabled": False}}
    ids = [
        api.post("/api/v1/runs", json={"config": config | changes, "tags": ["a", "b"], "notes": notes}).json()["id"]
        for changes, notes in ((plain, "=1+1"), ({"name": 'a "name", with nothing', "seed": 4}, ""))
    ]
    with database.write() as session:
        session.execute(update(Run).where(Run.id == ids[0]).values(summary={"reward_mean": 0.5, "kl": None}, created_at=0.0))
    points(database, ids[0], "reward_mean", [0.25, None, 0.5])
    points(database, ids[0], "loss", [1.5])
    points(database, ids[1], "reward_mean", [0.75])
    return ids


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_runs_with_what_was_configured_and_reached(api: TestClient, two: list[str], form: str) -> None:
    other, plain = take(api, "runs", form)
    assert (plain["id"], plain["name"], plain["tags"], plain["state"]) == (two[0], "plain", "a, b", "queued")
    assert plain["created_at"] == "1970-01-01T00:00:00+00:00"
    assert other["name"] == 'a "name", with nothing'
    assert (float(plain["summary.reward_mean"]), other["summary.reward_mean"]) == (0.5, None)
    assert "summary.kl" not in plain, "nobody has a value of it"
    assert (plain["config.speculation.enabled"], other["config.speculation.enabled"]) == ("false", "true")
    assert float(plain["config.algorithm.learning_rate"]) == 2e-5
    assert plain["notes"] == ("'=1+1" if form == "csv" else "=1+1"), "no spreadsheet takes it for a formula"
    if form != "csv":
        assert (plain["seed"], plain["config.seed"]) == (3, 3.0)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_points_of_chosen_runs(api: TestClient, two: list[str], form: str) -> None:
    rows = take(api, "metrics", form, sort="created")
    said = [(row["run_id"], row["key"], int(row["step"]), row["value"] if row["value"] is None else float(row["value"])) for row in rows]
    rewards = [(two[0], "reward_mean", 0, 0.25), (two[0], "reward_mean", 1, None), (two[0], "reward_mean", 2, 0.5)]
    assert said == [(two[0], "loss", 0, 1.5), *rewards, (two[1], "reward_mean", 0, 0.75)]
    assert {row["run"] for row in rows} == {"plain", 'a "name", with nothing'}
    assert len(take(api, "metrics", form, keys="loss")) == 1
    assert len(take(api, "metrics", form, run=two[1])) == 1
    assert take(api, "metrics", form, q="no such run") == []


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_nothing_is_a_table_too(api: TestClient, form: str) -> None:
    assert take(api, "runs", form) == take(api, "metrics", form) == []


def test_batches_follow_each_other(database: Database, two: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "POINTS", 2)
    monkeypatch.setattr(export, "PAGE", 1)
    batches = list(export.points(database, RunFilter(select(Project))))
    assert [len(batch) for batch in batches] == [1, 2, 2]
    assert len({row[:1] + row[2:4] for batch in batches for row in batch}) == 5
    assert two


def test_a_long_run_is_never_held_as_a_whole(database: Database, run_id: str) -> None:
    for key in range(5):
        points(database, run_id, f"key{key}", [float(step) for step in range(20_000)])
    tracemalloc.start()
    size = sum(len(chunk) for chunk in as_csv(export.POINT_COLUMNS, export.points(database, RunFilter(select(Project)))))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 3_000_000
    assert peak < 20_000_000, "a batch of 20,000 rows"


def test_json_is_json_whatever_the_batches() -> None:
    columns = [Column("a", "integer")]
    for batches in ([], [[(1,)]], [[(1,), (2,)], [(3,)]]):
        assert json.loads(b"".join(as_json(columns, batches))) == [{"a": row[0]} for batch in batches for row in batch]
