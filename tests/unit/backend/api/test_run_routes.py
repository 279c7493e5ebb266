from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from sqlalchemy import func, select

from backend.database import Database
from backend.models import Run
from backend.services.runs.attempts import claim
from backend.services.runs.validation import validated_config
from backend.settings import Settings
from engine.config import RunConfig


def submit(api: TestClient, config: Any, key: str | None = None, **body: Any) -> Any:
    return api.post("/api/v1/runs", json={"config": config} | body, headers={"Idempotency-Key": key} if key else {})


def count(database: Database, table: Any) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_an_accepted_run_is_queued(api: TestClient, config: dict[str, Any]) -> None:
    reply = submit(api, config | {"seed": 7}, tags=["a", "b"])
    assert reply.status_code == 201
    run = reply.json()
    assert (run["name"], run["state"], run["seed"], run["tags"], run["step"], run["steps"]) == ("first", "queued", 7, ["a", "b"], 0, 100)
    assert run["config"]["algorithm"]["group_size"] == 8, "defaults are filled in"
    assert api.get(f"/api/v1/runs/{run['id']}").json() == run


def test_a_repeated_key_gives_the_first_run(api: TestClient, database: Database, config: dict[str, Any]) -> None:
    first, again = submit(api, config, "k"), submit(api, config, "k")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    spelled_out = submit(api, config | {"seed": 0}, "k")
    assert spelled_out.json()["id"] == first.json()["id"], "a default that is written out is the same configuration"
    other = submit(api, config | {"seed": 1}, "k")
    assert (other.status_code, other.json()["title"]) == (409, "Conflict")
    assert count(database, Run) == 1


@pytest.mark.parametrize("key", ["k", "1", "a key/with?signs", "x" * 200])
@pytest.mark.parametrize("way", ["submit", "track"])
def test_another_users_key_is_nobody_elses(api: TestClient, new_token: NewToken, config: dict[str, Any], way: str, key: str) -> None:
    path, body = {"submit": ("/api/v1/runs", {"config": config}), "track": ("/api/v1/runs/tracked", {"name": "mine"})}[way]
    tokens = (new_token("editor", "anna"), new_token("editor", "bert"))
    replies = [
        api.post(path, json=body, headers={"Idempotency-Key": key, "Authorization": f"Bearer {token}"})
        for token in tokens
        for _ in range(2)
    ]
    assert [reply.status_code for reply in replies] == [201, 200, 201, 200]
    assert [reply.json()["owner"] for reply in replies] == ["anna", "anna", "bert", "bert"]


@pytest.mark.parametrize("way", ["submit", "track"])
def test_a_key_gives_no_run_of_another_project(api: TestClient, config: dict[str, Any], way: str) -> None:
    """Not even to its own user, who comes with a token for one project only."""
    path, body = {"submit": ("/api/v1/runs", {"config": config}), "track": ("/api/v1/runs/tracked", {"name": "mine"})}[way]
    assert api.post(path, json=body, headers={"Idempotency-Key": "k"}).status_code == 201
    project = api.post("/api/v1/projects", json={"name": "other"}).json()["id"]
    token = api.post("/api/v1/tokens", json={"name": "ci", "project_id": project}).json()["token"]
    reply = api.post(path, json=body, headers={"Idempotency-Key": "k", "Authorization": f"Bearer {token}"})
    assert reply.status_code == 409


@pytest.mark.parametrize(("key", "status"), [("", 422), ("x" * 201, 422), ("a\0b", 422)])
def test_impossible_keys(api: TestClient, config: dict[str, Any], key: str, status: int) -> None:
    assert api.post("/api/v1/runs", json={"config": config}, headers={"Idempotency-Key": key}).status_code == status


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"colour": "red"}, "colour", "unknown key"),
        ({"name": "two\nlines"}, "name", "should match pattern"),
        ({"algorithm": {"stepz": 1}}, "algorithm.stepz", "unknown key"),
        ({"algorithm": {"steps": -1}}, "algorithm.steps", "greater than or equal to 0 (got -1)"),
        ({"algorithm": {"steps": 0}}, "config", "algorithm.steps=0 only pretrains a drafter: set drafter.pretrain_minutes"),
        ({"cluster": {"workers": 0}}, "cluster.workers", "greater than or equal to 1 (got 0)"),
        ({"cluster": {"workers": 9}}, "config", "cluster.workers=9 exceeds algorithm.prompts_per_step=8"),
        ({"task": {"name": "chess"}}, "task.name", "'countdown', 'word_problems', 'math'"),
        ({"task": {"name": "countdown", "four_numbers": 2}}, "task.four_numbers", "less than or equal to 1 (got 2)"),
        ({"task": {"name": "math"}}, "task.path", "required"),
        ({"task": {"name": "math", "path": "/nowhere.jsonl"}}, "task.path", "data is read from "),
        ({"model": {"path": "/nowhere"}}, "model.path", "LONGTAIL_MODEL_ROOTS"),
        ({"drafter": {"path": "/nowhere"}}, "drafter.path", "LONGTAIL_MODEL_ROOTS"),
        ({"rollout": {"min_p": 1}}, "rollout.min_p", "less than 1 (got 1)"),
        ({"rollout": {"stop": [""]}}, "rollout.stop.0", "at least 1 character"),
        (
            {"speculation": {"strategies": [{"depth": 3, "top_k": 2, "verify": 11}]}},
            "speculation.strategies.0",
            "verify=11 exceeds the 10 tokens that depth=3 and top_k=2 draft; lower it, or raise one of those",
        ),
        (
            {"speculation": {"strategies": [{"drafter": "ngram", "depth": 8, "top_k": 2, "verify": 8}]}},
            "speculation.strategies.0",
            "set top_k to 1, or drafter to eagle",
        ),
        ({"speculation": {"strategies": []}}, "speculation.strategies", "must name at least one"),
        ({"speculation": {"tuner": {"name": "beg", "thresholds": [1, 2]}}}, "speculation", "tuner.thresholds has 2 values"),
        ({"speculation": {"tuner": {"name": "beg", "thresholds": [2, 3]}}}, "speculation.tuner", "thresholds must start with 1 and rise"),
        ({"speculation": {"tuner": {"name": "beg", "epsilon": 2}}}, "speculation.tuner.epsilon", "less than or equal to 1 (got 2)"),
        ({"speculation": {"tuner": {"name": "greedy"}}}, "speculation.tuner.name", "'beg', 'goodput', 'fixed'"),
    ],
)
def test_each_fault_of_a_configuration_is_named(
    api: TestClient, database: Database, config: dict[str, Any], change: dict[str, Any], field: str, message: str
) -> None:
    reply = submit(api, config | change)
    assert reply.status_code == 422
    assert [error["field"] for error in reply.json()["errors"]] == [field]
    assert message in reply.json()["errors"][0]["message"]
    checked = api.post("/api/v1/runs/validate", json={"config": config | change})
    said = {"valid": False, "errors": reply.json()["errors"], "config": None, "differences": []}
    assert (checked.status_code, checked.json()) == (200, said)
    assert count(database, Run) == 0, "no run is left behind"


def test_all_faults_are_told_at_once(api: TestClient) -> None:
    reply = submit(api, {"seed": -1, "model": {"dtype": "int4"}, "rollout": {"top_p": 0}})
    assert {error["field"] for error in reply.json()["errors"]} == {"seed", "model.dtype", "rollout.top_p"}


@pytest.mark.parametrize("content", ['{"question": "1+1?", "answer": "2"}\n{broken\n', ""])
def test_a_dataset_that_cannot_be_used_is_refused_at_once(api: TestClient, config: dict[str, Any], tmp_path: Any, content: str) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(content)
    reply = submit(api, config | {"task": {"name": "math", "path": str(file)}})
    assert reply.status_code == 422
    assert [error["field"] for error in reply.json()["errors"]] == ["task.path"]
    assert str(file) in reply.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"algorithm": {"advantage": "os:getpid", "loss": "os:abort"}}, ["algorithm.advantage", "algorithm.loss"]),
        ({"task": {"name": "function", "function": "os:system"}}, ["task.function"]),
        ({"task": {"name": "code", "isolation": "limits"}}, ["task.isolation"]),
    ],
)
def test_own_code_is_run_only_where_the_operator_allows_it(
    api: TestClient, settings: Settings, config: dict[str, Any], tmp_path: Any, change: dict[str, Any], fields: list[str]
) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"question": "1+1?", "tests": "assert f() == 2"}\n')
    if "task" in change:
        change = {"task": change["task"] | {"path": str(file)}}
    reply = submit(api, config | change)
    assert reply.status_code == 422
    assert [error["field"] for error in reply.json()["errors"]] == fields
    assert "LONGTAIL_OWN_CODE=true" in reply.json()["errors"][0]["message"]
    earlier = submit(api, config).json()["id"]
    assert api.post(f"/api/v1/runs/{earlier}/clone", json={"config": change}).status_code == 422
    assert validated_config(config | change, settings.model_copy(update={"own_code": True}), "editor").name == "first"


def test_programs_in_the_sandbox_need_no_leave(api: TestClient, config: dict[str, Any], tmp_path: Any) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"question": "1+1?", "tests": "assert f() == 2"}\n')
    assert submit(api, config | {"task": {"name": "code", "path": str(file)}}).status_code == 201


def test_a_good_configuration_is_valid(api: TestClient, config: dict[str, Any]) -> None:
    full = RunConfig.model_validate(config).model_dump(mode="json")
    checked = api.post("/api/v1/runs/validate", json={"config": config}).json()
    assert checked == {"valid": True, "errors": [], "config": full, "differences": []}


def test_a_configuration_is_told_from_another_by_its_settings_in_full(api: TestClient, config: dict[str, Any]) -> None:
    base = RunConfig.model_validate(config | {"name": "base"}).model_dump(mode="json")
    body = {"config": config | {"algorithm": {"name": "dapo", "steps": 7}}, "base": base}
    found = {each["field"]: each["values"] for each in api.post("/api/v1/runs/validate", json=body).json()["differences"]}
    assert found["algorithm.steps"] == {"base": 100, "config": 7}
    assert found["algorithm.clip_high"] == {"base": 0.2, "config": 0.28}, "what dapo stands for"
    assert "name" not in found


def test_pages_follow_each_other_newest_first(api: TestClient, config: dict[str, Any]) -> None:
    names = [submit(api, config | {"name": f"run {number}"}).json()["name"] for number in range(5)]
    seen, cursor = [], None
    for expected in (2, 2, 1):
        page = api.get("/api/v1/runs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        assert len(page["items"]) == expected
        seen += [run["name"] for run in page["items"]]
        cursor = page["next_cursor"]
    assert seen == names[::-1]
    assert cursor is None


def test_the_list_can_be_searched(api: TestClient, config: dict[str, Any]) -> None:
    hundred = submit(api, config | {"name": "100% Plain"}).json()
    other = submit(api, config | {"name": "100 tlt"}).json()
    api.post(f"/api/v1/runs/{other['id']}/cancel")

    def found(**query: str) -> list[str]:
        return [run["id"] for run in api.get("/api/v1/runs", params=query).json()["items"]]

    assert found(q="plain") == [hundred["id"]]
    assert found(q="100%") == [hundred["id"]], "a wildcard is a character like any other"
    assert found(q=other["id"][:6]) == [other["id"]]
    assert found(state="cancelled") == [other["id"]]
    assert found(state="queued", q="tlt") == []


def test_cancelling(api: TestClient, database: Database, config: dict[str, Any]) -> None:
    queued, active = submit(api, config).json()["id"], submit(api, config).json()["id"]
    with database.write() as session:
        claim(session, active, "0" * 16, 60)
    assert api.post(f"/api/v1/runs/{queued}/cancel").json()["state"] == "cancelled"
    asked = api.post(f"/api/v1/runs/{active}/cancel").json()
    assert (asked["state"], asked["cancel_requested"]) == ("starting", True)
    again = api.post(f"/api/v1/runs/{queued}/cancel")
    assert (again.status_code, again.json()["detail"]) == (
        409,
        f"run {queued} is cancelled: cannot cancel it; what can be done: retry, clone, delete",
    )
