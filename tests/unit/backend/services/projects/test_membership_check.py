"""Who has no part in a project does not learn that its runs exist."""

import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from new_token import NewToken

from backend.database import Database
from backend.models import Artifact, Run, Token
from longtail.schemas.projects import DEFAULT_PROJECT

WRITES = {"POST", "PUT", "PATCH", "DELETE"}


@pytest.fixture
def editor(anonymous: TestClient, new_token: NewToken) -> TestClient:
    return as_user(anonymous, new_token("editor", "anna"))


def as_user(client: TestClient, token: str) -> TestClient:
    other = TestClient(client.app, base_url="http://localhost", raise_server_exceptions=False)
    other.headers["Authorization"] = f"Bearer {token}"
    return other


def project(client: TestClient, name: str = "secret") -> str:
    return str(client.post("/api/v1/projects", json={"name": name}).json()["id"])


def submit(client: TestClient, config: Any, project_id: str | None = None) -> Any:
    return client.post("/api/v1/runs", json={"config": config, "project_id": project_id})


def names(client: TestClient, **query: Any) -> list[str]:
    return [run["name"] for run in client.get("/api/v1/runs", params=query).json()["items"]]


def test_the_first_start_makes_a_project_for_everybody(editor: TestClient, config: dict[str, Any]) -> None:
    (found,) = editor.get("/api/v1/projects").json()["items"]
    assert (found["id"], found["name"], found["role"]) == (DEFAULT_PROJECT, "default", "editor")
    assert submit(editor, config).json()["project_id"] == DEFAULT_PROJECT


def test_a_stranger_finds_nothing_of_a_project(editor: TestClient, new_token: NewToken, database: Database, config: dict[str, Any]) -> None:
    """Every route that names a run, an artifact or a project, whatever it is asked; nor can it be told from one that is not there."""
    place = project(editor)
    run_id = submit(editor, config, place).json()["id"]
    with database.write() as session:
        session.add(artifact := Artifact(run_id=run_id, name="a", type="drafter", path="a", bytes=1, sha256="0" * 64))
        session.flush()
        ids = {"run_id": run_id, "artifact_id": artifact.id, "project_id": place, "user_name": "anna"}
    nothing = dict.fromkeys(("run_id", "artifact_id", "project_id"), "f" * 16)
    stranger = as_user(editor, new_token("editor", "eve"))
    assert isinstance(editor.app, FastAPI)
    asked = 0
    for path, methods in editor.app.openapi()["paths"].items():
        if not {"run_id", "artifact_id", "project_id"} & set(re.findall(r"\{(\w+)\}", path)):
            continue
        for method in methods:
            body = {"role": "viewer"} if method == "put" else {}
            reply = stranger.request(method, path.format(**ids), json=body if method.upper() in WRITES - {"DELETE"} else None)
            assert reply.status_code == 404, f"{method} {path}: {reply.text}"
            absent = stranger.request(method, path.format(**ids | nothing), json=body if method.upper() in WRITES - {"DELETE"} else None)
            assert absent.status_code == 404, f"{method} {path}: {absent.text}"
            asked += 1
    assert asked > 20
    assert stranger.get("/api/v1/compare", params={"baseline": run_id, "run": run_id}).status_code == 404
    assert names(stranger) == []
    assert stranger.get("/api/v1/runs", params={"project": place}).status_code == 404
    assert run_id not in stranger.get("/api/v1/export/runs").text
    assert submit(stranger, config, place).status_code == 404
    assert [each["id"] for each in stranger.get("/api/v1/projects").json()["items"]] == [DEFAULT_PROJECT]
    with database.read() as session:
        assert session.get_one(Run, run_id).state == "queued"


def test_a_member_may_what_the_membership_says(editor: TestClient, new_token: NewToken, config: dict[str, Any]) -> None:
    place = project(editor)
    run_id = submit(editor, config, place).json()["id"]
    bert = as_user(editor, new_token("editor", "bert"))
    members = f"/api/v1/projects/{place}/members"
    assert editor.put(f"{members}/bert", json={"role": "viewer"}).json() == {"user": "bert", "role": "viewer"}
    assert bert.get(f"/api/v1/runs/{run_id}").status_code == 200
    assert bert.post(f"/api/v1/runs/{run_id}/cancel").status_code == 403
    assert submit(bert, config, place).status_code == 403
    assert bert.put(f"{members}/bert", json={"role": "admin"}).status_code == 403, "nobody raises themselves"
    editor.put(f"{members}/bert", json={"role": "editor"})
    assert submit(bert, config, place).status_code == 201
    assert bert.patch(f"/api/v1/projects/{place}", json={"name": "mine"}).status_code == 403
    assert [member["user"] for member in bert.get(members).json()["items"]] == ["anna", "bert"]
    assert editor.delete(f"{members}/bert").status_code == 204
    assert bert.get(f"/api/v1/runs/{run_id}").status_code == 404
    assert editor.delete(f"{members}/bert").status_code == editor.put(f"{members}/nobody", json={"role": "viewer"}).status_code == 404


def test_a_viewer_only_sees_whatever_the_membership_says(editor: TestClient, new_token: NewToken) -> None:
    place = project(editor)
    editor_of_little = as_user(editor, new_token("viewer", "carl"))
    editor.put(f"/api/v1/projects/{place}/members/carl", json={"role": "admin"})
    assert editor_of_little.get(f"/api/v1/projects/{place}").json()["role"] == "viewer"
    assert editor_of_little.patch(f"/api/v1/projects/{place}", json={"name": "x"}).status_code == 403


def test_an_admin_sees_all(editor: TestClient, new_token: NewToken, config: dict[str, Any]) -> None:
    place = project(editor)
    submit(editor, config | {"name": "hidden"}, place)
    admin = as_user(editor, new_token("admin"))
    assert names(admin) == ["hidden"]
    assert admin.patch(f"/api/v1/projects/{place}", json={"name": "renamed"}).json()["name"] == "renamed"


def test_an_archived_project_rests(editor: TestClient, config: dict[str, Any]) -> None:
    place = project(editor)
    run_id = submit(editor, config, place).json()["id"]
    archived = editor.patch(f"/api/v1/projects/{place}", json={"archived": True}).json()
    assert archived["archived_at"] is not None
    assert submit(editor, config, place).status_code == 409
    assert editor.post(f"/api/v1/runs/{run_id}/clone", json={}).status_code == 409
    assert names(editor) == []
    assert names(editor, project=place) == ["first"], "who names it sees it"
    assert len(editor.get("/api/v1/projects").json()["items"]) == 1
    assert len(editor.get("/api/v1/projects", params={"archived": True}).json()["items"]) == 2
    editor.patch(f"/api/v1/projects/{place}", json={"archived": False})
    assert submit(editor, config, place).status_code == 201


def test_projects_have_names_of_their_own(editor: TestClient, new_token: NewToken) -> None:
    place = project(editor)
    assert editor.post("/api/v1/projects", json={"name": "secret"}).status_code == 409
    assert editor.patch(f"/api/v1/projects/{place}", json={"name": "default"}).status_code == 409
    assert editor.patch(f"/api/v1/projects/{place}", json={"name": "\u200b"}).status_code == 422
    admin = as_user(editor, new_token("admin"))
    assert admin.patch(f"/api/v1/projects/{DEFAULT_PROJECT}", json={"archived": True}).status_code == 409
    assert editor.get(f"/api/v1/projects/{place}").json()["name"] == "secret"


def test_copies_stay_in_their_project(editor: TestClient, config: dict[str, Any]) -> None:
    place = project(editor)
    run_id = submit(editor, config, place).json()["id"]
    assert editor.post(f"/api/v1/runs/{run_id}/clone", json={}).json()["project_id"] == place
    editor.post(f"/api/v1/runs/{run_id}/cancel")
    assert editor.post(f"/api/v1/runs/{run_id}/retry").json()["project_id"] == place


def test_a_token_for_one_project_opens_no_other(
    editor: TestClient, new_token: NewToken, database: Database, config: dict[str, Any]
) -> None:
    place = project(editor)
    inside, outside = submit(editor, config, place).json()["id"], submit(editor, config).json()["id"]
    admin = as_user(editor, new_token("admin"))
    for maker in (editor, admin):
        secret = maker.post("/api/v1/tokens", json={"name": "bot", "scope": "editor", "project_id": place}).json()["token"]
        bot = as_user(editor, secret)
        assert bot.get("/api/v1/me").json()["project_id"] == place
        assert bot.get(f"/api/v1/runs/{inside}").status_code == 200
        assert bot.get(f"/api/v1/runs/{outside}").status_code == 404
        assert {run["project_id"] for run in bot.get("/api/v1/runs").json()["items"]} == {place}
        assert submit(bot, config).json()["project_id"] == place, "its runs need no telling where to go"
        assert submit(bot, config, DEFAULT_PROJECT).status_code == 404
        assert bot.post("/api/v1/tokens", json={"name": "wider"}).status_code == 403
        assert bot.post("/api/v1/projects", json={"name": "other"}).status_code == 403
        assert bot.get("/api/v1/users").status_code == 403
        ticket = bot.post("/api/v1/tickets").json()["ticket"]
        session = as_user(editor, bot.post("/api/v1/sessions", json={"ticket": ticket}).json()["token"])
        assert session.get(f"/api/v1/runs/{outside}").status_code == 404
    assert editor.post("/api/v1/tokens", json={"name": "x", "project_id": "0" * 16}).status_code == 404
    with database.read() as session_:
        assert session_.query(Token).filter(Token.project_id == place).count() == 6


def test_a_token_for_one_project_is_no_way_in_for_an_admin(editor: TestClient, new_token: NewToken, database: Database) -> None:
    admin = as_user(editor, new_token("admin", "root"))
    assert admin.post("/api/v1/tokens", json={"name": "narrow", "scope": "admin", "project_id": DEFAULT_PROJECT}).status_code == 201
    assert admin.delete("/api/v1/sessions/current").status_code == 409, "nobody could administer any more"
    with database.read() as session:
        assert session.query(Token).filter(Token.revoked_at.is_not(None)).count() == 0
