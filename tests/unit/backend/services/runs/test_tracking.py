"""Runs that scripts track: what the API takes, once, and what it refuses."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from backend.database import Database
from backend.jobs.maintenance.lost_attempts import Reaper
from backend.jobs.maintenance.silent_runs import LONGEST_LOOK_SECONDS, SilentRunCloser
from backend.models import Batch, LogLine, Metric, Run, new_id
from backend.services.queue.scheduling import QueueLimits
from backend.services.runs import tracking
from backend.services.runs.attempts import claim_next
from backend.settings import Settings
from longtail.schemas.tracking import BATCH_POINTS, CONFIG_BYTES, NewBatch, NewPoints

RUNS = "/api/v1/runs"


@pytest.fixture
def tracked(api: TestClient) -> str:
    return begin(api)


def begin(api: TestClient, **body: Any) -> str:
    reply = api.post(f"{RUNS}/tracked", json={"name": "mine"} | body)
    assert reply.status_code == 201, reply.text
    run_id: str = reply.json()["id"]
    return run_id


def send(api: TestClient, run_id: str, batch_id: str, *points: tuple[int, float | None], key: str = "loss", **body: Any) -> Any:
    series = [{"key": key, "points": points}] if points else []
    return api.post(f"{RUNS}/{run_id}/batches", json={"id": batch_id, "series": series} | body)


def held(database: Database, run_id: str) -> dict[tuple[str, int], float | None]:
    with database.read() as session:
        rows = session.execute(select(Metric.key, Metric.step, Metric.value).where(Metric.run_id == run_id))
        return {(key, step): value for key, step, value in rows}


def count(database: Database, table: Any) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_tracked_run_is_running_and_no_workers_business(api: TestClient, database: Database, settings: Settings) -> None:
    run_id = begin(api, config={"rate": 1e-3, "speculation": "mine"}, tags=["a"], steps=10)
    run = api.get(f"{RUNS}/{run_id}").json()
    assert (run["kind"], run["state"], run["steps"], run["tags"]) == ("tracked", "running", 10, ["a"])
    assert (run["config"], run["actions"], run["owner"]) == ({"rate": 1e-3, "speculation": "mine"}, ["cancel"], "editor")
    assert [item["id"] for item in api.get(f"{RUNS}?state=running").json()["items"]] == [run_id]
    assert Reaper(database, settings).reap() == {}
    with database.write() as session:
        assert claim_next(session, new_id(), ["cpu"], QueueLimits(active=1, active_per_owner=1), 60) is None


def test_it_takes_no_workers_place(api: TestClient, database: Database, run_id: str) -> None:
    begin(api)
    with database.write() as session:
        claimed = claim_next(session, new_id(), ["cpu"], QueueLimits(active=1), 60)
    assert claimed is not None
    assert claimed.run_id == run_id


def test_a_batch_counts_once(api: TestClient, database: Database, tracked: str) -> None:
    first = send(api, tracked, "1", (0, 0.5), (1, 0.4), lines=[{"message": "a\0b", "level": "warning", "step": 1}])
    assert (first.status_code, first.json()) == (200, {"repeated": False, "cancel_requested": False})
    send(api, tracked, "2", (1, 0.3), (2, None))
    again = send(api, tracked, "1", (0, 0.5), (1, 0.4), lines=[{"message": "a\0b", "level": "warning", "step": 1}])
    assert again.json()["repeated"]
    assert held(database, tracked) == {("loss", 0): 0.5, ("loss", 1): 0.3, ("loss", 2): None}, "the later batch stands"
    run = api.get(f"{RUNS}/{tracked}").json()
    assert (run["step"], run["summary"]) == (3, {"loss": None})
    (line,) = api.get(f"{RUNS}/{tracked}/logs").json()["items"]
    assert (line["message"], line["level"], line["step"]) == ("a␀b", "warning", 1)


def test_an_id_is_for_one_batch(api: TestClient, database: Database, tracked: str) -> None:
    send(api, tracked, "1", (0, 0.5))
    other = send(api, tracked, "1", (0, 0.6))
    assert (other.status_code, "another batch" in other.json()["detail"]) == (409, True)
    assert held(database, tracked) == {("loss", 0): 0.5}


def test_the_summary_has_the_latest_step(api: TestClient, tracked: str) -> None:
    send(api, tracked, "1", (7, 0.7))
    send(api, tracked, "2", (3, 0.3))
    run = api.get(f"{RUNS}/{tracked}").json()
    assert (run["step"], run["summary"]) == (8, {"loss": 0.7})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "id"),
        ({"id": "a b"}, "id"),
        ({"id": "1", "series": [{"key": "a,b", "points": [[0, 1.0]]}]}, "series.0.key"),
        ({"id": "1", "series": [{"key": "a", "points": []}]}, "series.0.points"),
        ({"id": "1", "series": [{"key": "a", "points": [[-1, 0.0]]}]}, "series.0.points.0.0"),
        ({"id": "1", "series": [{"key": "a", "points": [[1, "2"]]}]}, "series.0.points.0.1"),
        ({"id": "1", "series": [{"key": "a", "points": [[2**31, 0.0]]}]}, "series.0.points.0.0"),
        ({"id": "1", "series": [{"key": "a", "points": [[2**31 - 1, 0.0]]}]}, "series.0.points.0.0"),
        ({"id": "1", "series": [{"key": key, "points": [[n, 0] for n in range(BATCH_POINTS // 2 + 1)]} for key in "ab"]}, "series"),
        ({"id": "1", "lines": [{"message": ""}]}, "lines.0.message"),
        ({"id": "1", "colour": 1}, "colour"),
    ],
)
def test_a_bad_batch_is_refused_whole(api: TestClient, database: Database, tracked: str, body: Any, field: str) -> None:
    reply = api.post(f"{RUNS}/{tracked}/batches", json=body)
    assert (reply.status_code, [error["field"] for error in reply.json()["errors"]]) == (422, [field])
    assert count(database, Metric) == count(database, Batch) == 0


@pytest.mark.parametrize("config", [{"text": "x" * CONFIG_BYTES}, {"a": float("inf")}])
def test_a_config_has_limits(api: TestClient, config: Any) -> None:
    headers = {"Content-Type": "application/json"}
    reply = api.post(f"{RUNS}/tracked", content=json.dumps({"name": "mine", "config": config}), headers=headers)
    assert reply.status_code == 422
    assert [error["field"] for error in reply.json()["errors"]] == ["config"]


def test_a_run_has_so_many_series_at_most(api: TestClient, database: Database, tracked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "MOST_SERIES", 2)
    assert send(api, tracked, "1", (0, 1.0), key="a").status_code == send(api, tracked, "2", (0, 1.0), key="b").status_code == 200
    refused = send(api, tracked, "3", (0, 1.0), key="c")
    assert (refused.status_code, "2 is the most" in refused.json()["detail"]) == (422, True)
    assert send(api, tracked, "4", (1, 1.0), key="a").status_code == 200
    assert len(held(database, tracked)) == 3


def test_only_a_tracked_run_is_told_about(api: TestClient, run_id: str) -> None:
    assert send(api, run_id, "1", (0, 1.0)).status_code == 409
    assert api.post(f"{RUNS}/{run_id}/finish", json={"state": "failed"}).status_code == 409
    assert send(api, "0" * 16, "1").status_code == send(api, "nonsense", "1").status_code == 404


def test_at_its_end_the_latest_steps_are_summed_up(api: TestClient, tracked: str) -> None:
    send(api, tracked, "1", *((step, float(step)) for step in range(12)), key="step_seconds")
    assert api.post(f"{RUNS}/{tracked}/finish", json={"state": "succeeded"}).json()["summary"] == {
        "step_seconds": 11.0,
        "step_seconds_recent": 6.5,
    }


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_the_end_is_final(api: TestClient, database: Database, tracked: str, state: str) -> None:
    send(api, tracked, "1", (0, 1.0))
    body = {"state": state, "error": "out of memory" if state == "failed" else None}
    done = api.post(f"{RUNS}/{tracked}/finish", json=body).json()
    assert (done["state"], done["error"], done["actions"]) == (state, body["error"], ["delete"])
    assert api.post(f"{RUNS}/{tracked}/finish", json=body).json() == done, "asking twice does no harm"
    other = "failed" if state == "succeeded" else "succeeded"
    assert api.post(f"{RUNS}/{tracked}/finish", json={"state": other}).status_code == 409
    late = send(api, tracked, "2", (1, 1.0))
    assert (late.status_code, f"is {state}" in late.json()["detail"]) == (409, True)
    assert count(database, Batch) == 0, "their marks are of no more use"
    assert held(database, tracked) == {("loss", 0): 1.0}


def test_what_cannot_be_done_with_it_says_so(api: TestClient, tracked: str) -> None:
    for action in ("pause", "resume", "retry", "clone"):
        reply = api.post(f"{RUNS}/{tracked}/{action}", json={})
        assert (reply.status_code, reply.json()["detail"].endswith("what can be done: cancel")) == (409, True), action


def test_a_cancel_is_passed_on_to_the_script(api: TestClient, tracked: str) -> None:
    asked = api.post(f"{RUNS}/{tracked}/cancel").json()
    assert (asked["state"], asked["cancel_requested"], asked["actions"]) == ("running", True, [])
    assert send(api, tracked, "1").json()["cancel_requested"]
    assert api.post(f"{RUNS}/{tracked}/finish", json={"state": "cancelled"}).json()["state"] == "cancelled"


def test_a_repeated_key_begins_one_run(api: TestClient, database: Database) -> None:
    replies = [api.post(f"{RUNS}/tracked", json={"name": "mine"}, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [201, 200]
    assert len({reply.json()["id"] for reply in replies}) == count(database, Run) == 1
    assert api.post(f"{RUNS}/tracked", json={"name": "other"}, headers={"Idempotency-Key": "k"}).status_code == 409


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now

    def watch(self, silence: SilentRunCloser, seconds: float) -> list[str]:
        """So long, with a look every second."""
        ended = []
        for _ in range(int(seconds)):
            self.now += 1
            ended += silence.close_silent()
        return ended


@pytest.mark.parametrize(("cancelled", "state"), [(False, "failed"), (True, "cancelled")])
def test_a_silent_script_is_given_up(api: TestClient, database: Database, tracked: str, cancelled: bool, state: str) -> None:
    clock = Clock()
    silence = SilentRunCloser(database, 20, clock)
    assert clock.watch(silence, 15) == []
    if cancelled:
        api.post(f"{RUNS}/{tracked}/cancel")
    send(api, tracked, "1")
    assert clock.watch(silence, 15) == [], "an empty batch is a sign of life"
    assert clock.watch(silence, 10) == [tracked]
    run = api.get(f"{RUNS}/{tracked}").json()
    assert (run["state"], run["error"]) == (state, None if cancelled else "its script said nothing for 20 s")
    assert clock.watch(silence, 30) == []
    assert send(api, tracked, "2").status_code == 409


def test_nobody_is_silent_while_nobody_listens(database: Database, tracked: str) -> None:
    clock = Clock()
    silence = SilentRunCloser(database, 2 * LONGEST_LOOK_SECONDS, clock)
    silence.close_silent()
    clock.now += 3600  # this process was stopped, or the database did not answer
    assert silence.close_silent() == []
    assert clock.watch(silence, LONGEST_LOOK_SECONDS + 1) == [tracked]


def test_runs_of_workers_are_not_its_business(database: Database, run_id: str) -> None:
    clock = Clock()
    with database.write() as session:
        session.get_one(Run, run_id).state = "running"
    assert clock.watch(SilentRunCloser(database, 5, clock), 20) == []


@pytest.mark.parametrize("runs", [1, 4])
def test_writers_at_once_lose_and_double_nothing(api: TestClient, database: Database, runs: int) -> None:
    """Every batch is sent twice, by two writers at once."""
    ids = [begin(api) for _ in range(runs)]

    def deliver(number: int) -> bool:
        run_id, first = ids[number % runs], 10 * (number // runs)
        points = [(step, float(step)) for step in range(first, first + 10)]
        line = {"message": f"batch {number}"}
        batch = NewBatch.model_validate({"id": f"batch-{number}", "series": [NewPoints(key="loss", points=points)], "lines": [line]})
        with database.write() as session:
            return tracking.ingest(session, run_id, batch, 60).repeated

    with ThreadPoolExecutor(8) as pool:
        repeated = list(pool.map(deliver, [number for number in range(80) for _ in range(2)]))
    assert sum(repeated) == 80
    steps = range(10 * 80 // runs)
    for run_id in ids:
        assert held(database, run_id) == {("loss", step): float(step) for step in steps}
        assert [key["points"] for key in api.get(f"{RUNS}/{run_id}/metrics/keys").json()["items"]] == [len(steps)]
    assert count(database, LogLine) == 80


def test_begin_and_end_are_audited(api: TestClient, tracked: str, anonymous: TestClient, new_token: Callable[..., str]) -> None:
    send(api, tracked, "1", (0, 1.0))
    api.post(f"{RUNS}/{tracked}/finish", json={"state": "succeeded"})
    entries = anonymous.get("/api/v1/audit", headers={"Authorization": f"Bearer {new_token('admin')}"}).json()["items"]
    assert [(entry["action"], entry["object"]) for entry in entries] == [
        (action, f"runs/{tracked}") for action in ("finish", "ingest", "track")
    ]
