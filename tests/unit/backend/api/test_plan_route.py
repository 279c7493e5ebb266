"""Plans over REST: a real planner in a process of its own, on what a run has told of itself."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_events import begin, started, step, write
from fastapi.testclient import TestClient

from backend.api.routes.plans import NAMED
from backend.database import Database
from backend.models import Run
from backend.services.plans import planning
from engine.events import StepFinished
from engine.planner.answers.recorded_run import recorded_run
from engine.planner.hardware import known_gpus
from engine.planner.model_shape import PRESETS

PLANS = "/api/v1/plans"


def plan(api: TestClient, config: Any, gpus: str = "cpu:1", **body: Any) -> Any:
    return api.post(PLANS, json={"config": config, "gpus": gpus, "quick": True} | body)


@pytest.fixture
def told(api: TestClient, database: Database, tmp_path: Path, config: dict[str, Any]) -> str:
    """Id of a run that has told of three steps."""
    run_id: str = api.post("/api/v1/runs", json={"config": config}).json()["id"]
    path = tmp_path / "events.jsonl"
    ingestor = begin(database, run_id, path)
    write(path, started(), *step(0), *step(1), *step(2))
    ingestor.drain()
    return run_id


def test_a_run_is_planned_by_what_it_has_told(api: TestClient, told: str, config: dict[str, Any]) -> None:
    small = config | {"model": {"path": "tiny"}, "algorithm": {"prompts_per_step": 2, "group_size": 2}, "cluster": {"workers": 1}}
    reply = plan(api, small, run_id=told)
    assert reply.status_code == 200, reply.text
    found = reply.json()
    assert [arm["name"] for arm in found["arms"]][:2] == ["plain", "TLT"]
    assert [one["measured_s"] for one in found["recorded"]] == [2.0, 2.0, 2.0]
    assert found["lengths"].startswith("as recorded in 3 steps")
    assert {span["worker"] for span in found["spans"]} == {0}
    assert found["decoding"][0]["points"][-1][1] == 0


def test_prompts_are_as_long_as_the_run_has_told(api: TestClient, database: Database, tmp_path: Path, config: dict[str, Any]) -> None:
    run_id, path = api.post("/api/v1/runs", json={"config": config}).json()["id"], tmp_path / "events.jsonl"
    newer = step(1)[-1]
    assert isinstance(newer, StepFinished)
    newer.metrics["prompt_tokens"] = 300.0
    ingestor = begin(database, run_id, path)
    write(path, started(), *step(0), *step(1)[:-1], newer)
    ingestor.drain()
    with database.read() as session:
        planning._record(tmp_path, session, session.get_one(Run, run_id))
    recorded = recorded_run(tmp_path)
    assert [one.prompt for one in recorded.steps] == [None, 300.0], "older engines did not tell"
    assert recorded.prompt == 300.0


def fault(reply: Any) -> tuple[int, str, str]:
    error = reply.json()["errors"][0]
    return reply.status_code, error["field"], error["message"]


def test_what_cannot_be_planned_is_told_by_its_field(api: TestClient, config: dict[str, Any]) -> None:
    unstarted = api.post("/api/v1/runs", json={"config": config}).json()["id"]
    assert fault(plan(api, config, "h900:8"))[:2] == (422, "gpus")
    assert "choose one of h100" in fault(plan(api, config, "h900:8"))[2]
    assert fault(plan(api, config, price=-1))[:2] == (422, "price")
    assert fault(plan(api, config, median=0))[:2] == (422, "median")
    assert fault(plan(api, config | {"seed": "x"}))[:2] == (422, "seed")
    assert fault(plan(api, config, run_id=unstarted))[:2] == (422, "run_id")
    assert plan(api, config, run_id="0" * 16).status_code == 404
    assert fault(plan(api, config))[:2] == (422, "model.path"), "a config.json without sizes"
    status, field, message = fault(plan(api, config | {"model": {"path": "70B"}}, "4090:1"))
    assert (status, field) == (422, "gpus")
    assert "has 24 GB a GPU" in message


def test_a_run_with_a_setting_that_is_gone_is_refused_with_its_field(
    api: TestClient, database: Database, told: str, config: dict[str, Any]
) -> None:
    with database.write() as session:
        session.get_one(Run, told).config = config | {"gone": 1}
    assert fault(plan(api, config | {"model": {"path": "tiny"}}, run_id=told))[:2] == (422, "gone")


def test_no_more_plans_are_made_at_once_than_there_is_room_for(api: TestClient, config: dict[str, Any]) -> None:
    for _ in range(planning.AT_A_TIME):
        assert planning.FREE.acquire(blocking=False)
    try:
        reply = plan(api, config)
    finally:
        planning.FREE.release(planning.AT_A_TIME)
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize("memory", [0.06, 0.15])
def test_a_plan_has_so_much_memory(api: TestClient, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, memory: float) -> None:
    monkeypatch.setattr(planning, "MEMORY", memory)
    status, field, message = fault(plan(api, config | {"model": {"path": "0.5B"}}))
    assert (status, field) == (422, "memory")
    assert message.startswith(f"{memory} GB are not enough to plan this; lower algorithm.prompts_per_step")


@pytest.mark.parametrize("end", [signal.SIGSEGV, signal.SIGKILL])
def test_a_planner_that_was_ended_had_too_little_memory(
    api: TestClient, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    monkeypatch.setattr(planning, "COMMAND", (sys.executable, "-c", f"import os; os.kill(os.getpid(), {end.value})"))
    status, field, message = fault(plan(api, config))
    assert (status, field) == (422, "memory")
    assert message.startswith(f"{planning.MEMORY} GB are not enough to plan this; lower algorithm.prompts_per_step")


def test_what_can_be_planned_on_is_the_planners_list(api: TestClient) -> None:
    kinds = {kind.pop("name"): kind for kind in api.get(f"{PLANS}/gpus").json()["items"]}
    assert kinds == {name: gpu.model_dump() for name, gpu in known_gpus().items()}
    assert "3090" in kinds


def test_the_sizes_that_need_no_folder_are_the_planners() -> None:
    assert set(PRESETS) == NAMED
