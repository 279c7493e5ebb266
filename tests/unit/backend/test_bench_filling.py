"""What the benchmarks fill a database with is what the platform itself would have left there."""

from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import delete, select

from backend.bench.filling import fill, fill_series
from backend.bench.lists import LISTS
from backend.database import Database
from backend.models import Run, RunValue
from backend.services import run_values
from engine.config import RunConfig


def values(database: Database, run_id: str) -> dict[str, tuple[str, float | None]]:
    with database.read() as session:
        found = session.execute(select(RunValue.field, RunValue.text, RunValue.number).where(RunValue.run_id == run_id))
        return {field: (text, number) for field, text, number in found}


def test_filled_runs_are_found_as_others_are(api: TestClient, database: Database) -> None:
    ids = fill(database, 120)
    items: list[dict[str, Any]] = api.get("/api/v1/runs", params={"limit": 200}).json()["items"]
    assert [run["id"] for run in items] == ids[::-1]
    assert all(RunConfig.model_validate(run["config"]).seed == run["seed"] for run in items)
    assert {run["state"] for run in items} == {"succeeded", "failed", "cancelled", "running", "queued"}
    for chosen in LISTS:
        assert api.get("/api/v1/runs", params=chosen).json()["items"], chosen
    for run_id in ids[:10]:
        before = values(database, run_id)
        with database.write() as session:
            run = session.get_one(Run, run_id)
            session.execute(delete(RunValue).where(RunValue.run_id == run_id))
            run_values.describe(session, run)
            run_values.summarise(session, run_id, run.summary)
        assert values(database, run_id) == before


def test_filled_series_can_be_compared(api: TestClient, database: Database) -> None:
    ids = fill(database, 3)
    fill_series(database, ids, 40)
    found = api.get("/api/v1/compare", params={"baseline": ids[0], "run": ids[1:], "keys": "kl", "points": 10}).json()
    assert [item["steps"] for item in found["items"]] == [40, 40, 40]
    assert len(found["metrics"][0]["steps"]) == 10
