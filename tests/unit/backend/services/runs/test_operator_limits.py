"""What of the host a run may name, by who submits it and what the operator has allowed."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from sqlalchemy import delete

from backend.api import create_app
from backend.database import Database
from backend.models import Membership, Run
from backend.services.runs.operator_limits import beyond_limits
from backend.settings import Settings
from engine.config import RunConfig
from longtail.schemas.identity import Role

SECRET = '{"question": "1+1?", "diag": "the secret", "answer": "2"}\n'


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "home" / "models").mkdir()
    (place := tmp_path / "outside").mkdir()
    (place / "data.jsonl").write_text(SECRET)
    (tmp_path / "home" / "data" / "link.jsonl").symlink_to(place / "data.jsonl")
    return place


def fields(config: dict[str, Any], role: Role, **settings: Any) -> set[str]:
    found = beyond_limits(RunConfig.model_validate(config), Settings(**settings), role)
    return {fault.field for fault in found}


def naming(data: Path, model: Path) -> dict[str, Any]:
    """A configuration with every field that names a file."""
    return {
        "model": {"path": str(model)},
        "task": {"name": "math", "path": str(data), "validation_path": str(data)},
        "drafter": {"path": str(model), "pretrain_responses": str(data), "pretrain_minutes": 1},
        "rollout": {"sglang": {"draft_model": str(model)}},
    }


DATA = {"task.path", "task.validation_path", "drafter.pretrain_responses"}
MODELS = {"model.path", "drafter.path", "rollout.sglang.draft_model"}


def test_files_are_named_below_the_roots_only(tmp_path: Path, outside: Path) -> None:
    home = tmp_path / "home"
    inside = naming(home / "data" / "a.jsonl", home / "models" / "a")
    assert fields(inside, "editor", home=home) == fields({}, "editor", home=home) == set()
    assert fields(naming(outside / "data.jsonl", outside), "editor", home=home) == DATA | MODELS
    assert fields(naming(outside / "data.jsonl", outside), "admin", home=home) == set(), "on one's own machine"
    roots = {"data_roots": (outside,), "model_roots": (home,)}
    assert fields(naming(outside / "data.jsonl", outside), "admin", home=home, **roots) == MODELS


@pytest.mark.parametrize(
    "path",
    ["home/data/link.jsonl", "home/data/../../outside/data.jsonl", "home/longtail.db", "home/database/a.jsonl", "home/data/\0.jsonl"],
)
def test_no_link_and_no_detour_leads_out(tmp_path: Path, outside: Path, path: str) -> None:
    assert outside.exists()
    assert fields({"task": {"name": "math", "path": str(tmp_path / path)}}, "editor", home=tmp_path / "home") == {"task.path"}


@pytest.mark.parametrize("role", ["editor", "admin"])
def test_a_cluster_is_joined_only_if_the_operator_names_it(tmp_path: Path, role: Role) -> None:
    config = {"cluster": {"ray_address": "ray://evil:10001"}}
    assert fields(config, role, home=tmp_path) == {"cluster.ray_address"}
    assert fields(config, role, home=tmp_path, ray_addresses=("ray://evil:10001",)) == set()


def test_nobody_learns_of_files_that_they_may_not_name(settings: Settings, database: Database, new_token: NewToken, outside: Path) -> None:
    """The same answer whether there is such a file or folder or not, and none at all for viewers."""
    assert database
    app = create_app(settings.model_copy(update={"data_roots": (), "model_roots": ()}))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    client.headers["Authorization"] = f"Bearer {new_token('editor')}"
    files = (outside / "data.jsonl", outside / "nothing.jsonl")
    replies = []
    for file, folder in zip(files, (outside, outside / "nothing"), strict=True):
        config = {"model": {"path": str(folder)}, "task": {"name": "choice", "path": str(file), "choices": "diag"}}
        replies.append(client.post("/api/v1/runs/validate", json={"config": config}).json())
        assert client.post("/api/v1/runs", json={"config": config}).status_code == 422
    assert replies[0] == replies[1]
    assert {error["field"] for error in replies[0]["errors"]} == {"task.path", "model.path"}
    assert "secret" not in str(replies)
    client.headers["Authorization"] = f"Bearer {new_token('viewer')}"
    assert client.post("/api/v1/runs/validate", json={"config": {}}).status_code == 403


def test_who_is_in_no_project_an_editor_validates_nothing(api: TestClient, database: Database) -> None:
    with database.write() as session:
        session.execute(delete(Membership))
    assert api.post("/api/v1/runs/validate", json={"config": {}}).status_code == 403


def test_a_retry_asks_the_limits_again(api: TestClient, settings: Settings, database: Database, run_id: str) -> None:
    with database.write() as session:
        run = session.get_one(Run, run_id)
        run.state, run.config = "failed", run.config | {"cluster": run.config["cluster"] | {"ray_address": "evil:6379"}}
    reply = api.post(f"/api/v1/runs/{run_id}/retry")
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "cluster.ray_address")
    assert not list(settings.runs.glob("*")), "nothing is left behind"
