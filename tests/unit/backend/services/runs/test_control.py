"""What users can do to a run, and what each state allows."""

import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from sqlalchemy import select, update

from backend.database import Database
from backend.models import Artifact, LogLine, Run
from backend.settings import Settings
from engine.checkpoint.verification import newest
from engine.events import CheckpointSaved, EventWriter, RunStarted, StepFinished, read
from longtail.schemas.runs import POSSIBLE_IN, TERMINAL_STATES, RunState

STATES: tuple[RunState, ...] = get_args(RunState)
Submit = Callable[..., str]
DAY = 86400.0


@pytest.fixture
def submit(api: TestClient, config: dict[str, Any]) -> Submit:
    def submitted(**wishes: Any) -> str:
        reply = api.post("/api/v1/runs", json={"config": config, **wishes})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["id"])

    return submitted


def put(database: Database, run_id: str, **values: Any) -> None:
    """As if the jobs had brought it there."""
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run_id).values(**values))


def checkpoints(folder: Path, *steps: int, damaged: int | None = None) -> None:
    """Real ones, of a file each, and the events of a run that made them."""
    from engine.checkpoint import storage

    events = EventWriter(folder / "events.jsonl")
    events.write(RunStarted(first_step=0, steps=9, workers=1, model_parameters=1, device="cpu", packages={}))
    for step in range(max(steps) + 1):
        events.write(StepFinished(step=step, seconds=1.0, phases={}, metrics={"reward_mean": 0.5}))
        if step in steps:
            saved = storage.save(folder / "checkpoints", step, {"state.json": step})
            events.write(CheckpointSaved(step=step, path=str(saved.path.relative_to(folder)), seconds=0.0))
    events.write(StepFinished(step=max(steps) + 1, seconds=1.0, phases={}, metrics={}))
    events.close()
    if damaged is not None:
        (folder / f"checkpoints/step_{damaged:06d}/state.json").write_text("7")


@pytest.mark.parametrize(("action", "state"), list(product(("cancel", "pause", "resume", "retry", "clone"), STATES)))
def test_what_a_state_does_not_allow_is_refused_with_what_it_allows(
    api: TestClient, database: Database, submit: Submit, action: str, state: RunState
) -> None:
    run_id = submit()
    put(database, run_id, state=state)
    possible = api.get(f"/api/v1/runs/{run_id}").json()["actions"]
    reply = api.post(f"/api/v1/runs/{run_id}/{action}", json={})
    if action in possible:
        assert reply.is_success
        assert state in POSSIBLE_IN[action]  # type: ignore[index]
    else:
        detail = f"run {run_id} is {state}: cannot {action} it; what can be done: {', '.join(possible)}"
        assert (reply.status_code, reply.json()["detail"]) == (409, detail)
        assert api.get(f"/api/v1/runs/{run_id}").json()["state"] == state


def test_a_queued_run_is_paused_and_resumed(api: TestClient, submit: Submit) -> None:
    run_id = submit()
    paused = api.post(f"/api/v1/runs/{run_id}/pause").json()
    assert (paused["state"], paused["actions"]) == ("paused", ["resume", "cancel", "clone"])
    assert api.post(f"/api/v1/runs/{run_id}/resume").json()["state"] == "queued"


@pytest.mark.parametrize(("attempt", "waits"), [(0, True), (2, False)])
def test_a_run_that_waits_after_losses_is_let_go_by_pause_and_resume(
    api: TestClient, database: Database, submit: Submit, attempt: int, waits: bool
) -> None:
    """One that has not begun waits for the time that its user has named."""
    run_id = submit()
    put(database, run_id, start_after=time.time() + 3600.0, attempt=attempt)
    for action in ("pause", "resume"):
        run = api.post(f"/api/v1/runs/{run_id}/{action}").json()
    assert (run["state"], run["start_after"] is not None) == ("queued", waits)


def test_a_pause_under_way_can_be_asked_for_twice_and_taken_back(api: TestClient, database: Database, submit: Submit) -> None:
    run_id = submit()
    put(database, run_id, state="running")
    for _ in range(2):
        run = api.post(f"/api/v1/runs/{run_id}/pause").json()
        assert (run["state"], run["pause_requested"], run["actions"]) == ("running", True, ["resume", "cancel", "clone"])
    run = api.post(f"/api/v1/runs/{run_id}/resume").json()
    assert (run["state"], run["pause_requested"]) == ("running", False)


def test_a_paused_run_is_cancelled_at_once(api: TestClient, submit: Submit) -> None:
    run_id = submit()
    api.post(f"/api/v1/runs/{run_id}/pause")
    assert api.post(f"/api/v1/runs/{run_id}/cancel").json()["state"] == "cancelled"


def test_retry_goes_on_from_the_last_checkpoint(api: TestClient, database: Database, settings: Settings, submit: Submit) -> None:
    old = submit(tags=["x"], priority=3)
    put(database, old, state="failed")
    checkpoints(settings.run_folder(old), 1, 3, 5)
    (settings.run_folder(old) / "checkpoints/step_000005/state.json").unlink()
    run = api.post(f"/api/v1/runs/{old}/retry").json()
    assert (run["parent_id"], run["resumed_step"], run["state"], run["tags"], run["priority"]) == (old, 3, "queued", ["x"], 3)
    folder = settings.run_folder(run["id"])
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step_000001", "step_000003"]
    last = list(read(folder / "events.jsonl"))[-1]
    assert (last.kind, last.step) == ("checkpoint", 3)  # type: ignore[union-attr]
    with database.read() as session:
        said = session.scalars(select(LogLine.message).where(LogLine.run_id == run["id"])).one()
    assert said == f"goes on from run {old} after step 3, its last checkpoint"
    assert api.get(f"/api/v1/runs/{old}").json()["state"] == "failed", "a terminal state is final"


def test_retry_reads_no_checkpoint_so_that_its_engine_may_go_on_from_an_older_one(
    api: TestClient, database: Database, settings: Settings, submit: Submit
) -> None:
    old = submit()
    put(database, old, state="failed")
    checkpoints(settings.run_folder(old), 1, 3, 5, damaged=5)
    run = api.post(f"/api/v1/runs/{old}/retry").json()
    assert run["resumed_step"] == 5
    found = newest(settings.run_folder(run["id"]) / "checkpoints")
    assert found is not None
    assert found.step == 3


def test_retry_without_a_checkpoint_says_that_it_begins_anew(
    api: TestClient, database: Database, settings: Settings, submit: Submit
) -> None:
    old = submit()
    put(database, old, state="cancelled")
    run = api.post(f"/api/v1/runs/{old}/retry").json()
    assert run["resumed_step"] is None
    assert not settings.run_folder(run["id"]).exists()
    with database.read() as session:
        assert "at the beginning: it has no checkpoint" in session.scalars(select(LogLine.message)).one()


@pytest.mark.parametrize(
    ("had", "done"),
    [
        ({"checkpoint_step": 3}, "step 3"),
        ({"pretraining": {"round": 2}}, "rounds of pretraining"),
        ({"resumed_step": 5}, "step 5"),
        ({"resumed_step": -1}, "rounds of pretraining"),
    ],
)
def test_retry_does_not_begin_anew_where_checkpoints_are_missing(
    api: TestClient, database: Database, settings: Settings, submit: Submit, had: dict[str, Any], done: str
) -> None:
    """As on a host that has not mounted the data folder. Once they are there no more, it does."""
    old = submit()
    put(database, old, state="failed", finished_at=time.time() - 29 * DAY, **had)
    reply = api.post(f"/api/v1/runs/{old}/retry")
    assert reply.status_code == 409
    assert f"run {old} cannot go on after {done} from {settings.run_folder(old)} on " in reply.json()["detail"]
    with database.read() as session:
        assert session.scalars(select(Run.id)).all() == [old]
    put(database, old, finished_at=time.time() - 31 * DAY)
    assert api.post(f"/api/v1/runs/{old}/retry").json()["resumed_step"] is None


@pytest.mark.parametrize(
    ("had", "goes_on"), [({"checkpoint_step": 3}, False), ({"resumed_step": 5}, False), ({"resumed_step": -1}, True), ({}, True)]
)
def test_retry_does_not_go_back_to_rounds_of_pretraining_where_steps_were_done(
    api: TestClient, database: Database, settings: Settings, submit: Submit, had: dict[str, Any], goes_on: bool
) -> None:
    """As on a host that has restored only these."""
    from engine.checkpoint import storage

    old = submit()
    put(database, old, state="failed", finished_at=time.time(), pretraining={"round": 2}, **had)
    storage.save(settings.run_folder(old) / "pretraining", 2, {"state.json": 2})
    (settings.run_folder(old) / "events.jsonl").touch()
    reply = api.post(f"/api/v1/runs/{old}/retry")
    assert (reply.status_code, reply.json().get("resumed_step")) == ((201, -1) if goes_on else (409, None))


def test_retry_does_not_begin_anew_where_all_checkpoints_are_damaged(
    api: TestClient, database: Database, settings: Settings, submit: Submit
) -> None:
    old = submit()
    put(database, old, state="failed", checkpoint_step=3)
    checkpoints(settings.run_folder(old), 3)
    (settings.run_folder(old) / "checkpoints/step_000003/state.json").unlink()
    detail = api.post(f"/api/v1/runs/{old}/retry").json()["detail"]
    assert "step_000003: state.json is missing" in detail
    assert api.post(f"/api/v1/runs/{old}/clone", json={}).status_code == 201


@pytest.mark.parametrize("action", ["retry", "clone"])
def test_a_run_with_a_setting_that_is_gone_is_refused_with_its_field(
    api: TestClient, database: Database, config: dict[str, Any], submit: Submit, action: str
) -> None:
    old = submit()
    put(database, old, state="failed", config=config | {"gone": 1})
    reply = api.post(f"/api/v1/runs/{old}/{action}", json={})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "gone")


def test_retry_minds_no_line_that_a_crash_has_left(api: TestClient, database: Database, settings: Settings, submit: Submit) -> None:
    old = submit()
    put(database, old, state="failed")
    checkpoints(settings.run_folder(old), 1, 3)
    with (settings.run_folder(old) / "events.jsonl").open("a") as events:
        events.write('{"kind":"checkpoint","step":3,\0\0\0\n')
    assert api.post(f"/api/v1/runs/{old}/retry").json()["resumed_step"] == 3


def test_clone_changes_what_it_is_told_to(api: TestClient, config: dict[str, Any], submit: Submit) -> None:
    old = submit(tags=["x"], needs="gpu")
    body = {"config": {"seed": 7, "algorithm": {"steps": 3}}, "tags": ["y"], "notes": "again"}
    run = api.post(f"/api/v1/runs/{old}/clone", json=body).json()
    assert run["notes"] == "again"
    assert (run["seed"], run["steps"], run["tags"], run["needs"], run["parent_id"]) == (7, 3, ["y"], "gpu", old)
    assert run["config"]["model"]["path"] == config["model"]["path"]
    assert run["resumed_step"] is None
    refused = api.post(f"/api/v1/runs/{old}/clone", json={"config": {"seed": -1}})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "seed")


@pytest.mark.parametrize(("action", "owner"), [("clone", "anna"), ("retry", "editor")])
def test_a_clone_is_of_who_makes_it_and_a_retry_of_whose_run_it_is(
    api: TestClient, database: Database, new_token: NewToken, submit: Submit, action: str, owner: str
) -> None:
    old = submit()
    put(database, old, state="failed")
    anna = {"Authorization": f"Bearer {new_token('editor', 'anna')}"}
    key = {"Idempotency-Key": "one"}
    assert api.get(f"/api/v1/runs/{old}").json()["owner"] == "editor"
    assert api.post(f"/api/v1/runs/{old}/{action}", json={}, headers=anna | key).json()["owner"] == owner
    again = api.post(f"/api/v1/runs/{old}/{action}", json={}, headers=key).status_code
    assert again == 201, "another's key is not one's own"


@pytest.mark.parametrize("action", ["retry", "clone"])
def test_a_repeated_key_makes_one_copy(api: TestClient, database: Database, submit: Submit, action: str) -> None:
    old = submit()
    put(database, old, state="failed")
    replies = [api.post(f"/api/v1/runs/{old}/{action}", json={}, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [201, 200]
    assert replies[0].json()["id"] == replies[1].json()["id"]
    other = api.post("/api/v1/runs", json={"config": json.loads(replies[0].text)["config"]}, headers={"Idempotency-Key": "once"})
    assert other.status_code == 409


def test_a_deleted_run_is_out_of_sight_until_restored(api: TestClient, database: Database, settings: Settings, submit: Submit) -> None:
    run_id = submit()
    assert api.delete(f"/api/v1/runs/{run_id}").status_code == 409, "it is queued"
    put(database, run_id, state="succeeded")
    file = settings.run_folder(run_id) / "a.zip"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    with database.write() as session:
        session.add(Artifact(id="a" * 16, run_id=run_id, name="a", type="policy", path="a.zip", bytes=1, sha256="0" * 64))
    download = f"/api/v1/artifacts/{'a' * 16}/download"
    assert api.get(download).status_code == 200
    assert api.delete(f"/api/v1/runs/{run_id}").status_code == 204
    gone = api.get(f"/api/v1/runs/{run_id}")
    assert (gone.status_code, f"longtail undelete {run_id}" in gone.text) == (404, True)
    assert api.get(download).status_code == 404
    assert api.get("/api/v1/runs").json()["items"] == []
    assert api.post(f"/api/v1/runs/{run_id}/restore").json()["state"] == "succeeded"
    assert [run["id"] for run in api.get("/api/v1/runs").json()["items"]] == [run_id]


def test_every_state_allows_something() -> None:
    assert {state for states in POSSIBLE_IN.values() for state in states} == set(STATES)
    assert not {"cancel", "pause", "resume"} & {action for action, states in POSSIBLE_IN.items() if states & TERMINAL_STATES}
