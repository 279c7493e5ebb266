"""Names, notes and tags can be changed at any time, and by two people at once without either losing anything unseen."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from sqlalchemy import select

from backend.database import Database
from backend.models import RunValue


@pytest.fixture
def run(api: TestClient, config: dict[str, Any]) -> str:
    run_id = api.post("/api/v1/runs", json={"config": config, "tags": ["old", "kept"], "notes": "before"}).json()["id"]
    return f"/api/v1/runs/{run_id}"


def test_what_is_left_out_stays(api: TestClient, run: str) -> None:
    changed = api.patch(run, json={"notes": "<b>after</b> \N{SNAKE}"})
    body = changed.json()
    assert (body["name"], body["tags"], body["notes"], body["revision"]) == ("first", ["old", "kept"], "<b>after</b> \N{SNAKE}", 1)
    assert changed.headers["etag"] == api.get(run).headers["etag"]
    assert changed.headers["etag"].startswith('"1.')
    assert api.patch(run, json={}).json() == body
    assert api.patch(run, json={"notes": body["notes"]}).json()["revision"] == 1, "what changes nothing is no change"


def test_who_has_seen_an_older_state_is_refused(api: TestClient, run: str) -> None:
    seen = api.get(run).headers["etag"]
    assert api.patch(run, json={"tags": ["good"]}, headers={"If-Match": seen}).status_code == 200
    late = api.patch(run, json={"tags": ["bad"]}, headers={"If-Match": seen})
    assert (late.status_code, late.headers["content-type"]) == (412, "application/problem+json")
    assert "revision 1" in late.json()["detail"]
    assert api.get(run).json()["tags"] == ["good"]
    for match in ("*", '"0", "1"'):
        assert api.patch(run, json={"name": f"by {match[0]}"}, headers={"If-Match": match}).status_code == (200 if match == "*" else 412)
    assert api.patch(run, json={"name": "weak"}, headers={"If-Match": 'W/"2"'}).status_code == 412
    for match, status in (('"2"', 200), ('"2"', 412), (f'"3.{"0" * 16}"', 200), ('"4.x"', 412), (f'"04.{"0" * 16}"', 412)):
        assert api.patch(run, json={"name": f"once more {match}"}, headers={"If-Match": match}).status_code == status, match


def test_it_is_found_by_what_it_is_called_now(api: TestClient, run: str, database: Database) -> None:
    api.patch(run, json={"name": "better", "notes": "a finding", "tags": ["new", "kept"]})

    def found(**query: str) -> int:
        return len(api.get("/api/v1/runs", params=query).json()["items"])

    assert (found(q="bett"), found(q="FINDING"), found(tag="new"), found(tag="kept")) == (1, 1, 1, 1)
    assert (found(q="before"), found(tag="old")) == (0, 0)
    with database.read() as session:
        labels = select(RunValue.field).where(~RunValue.field.startswith("config"))
        assert set(session.scalars(labels)) == {"notes", "tags.new", "tags.kept"}


def test_a_copy_has_the_name_that_the_run_has_now(api: TestClient, run: str) -> None:
    api.patch(run, json={"name": "better"})
    assert api.post(f"{run}/clone", json={}).json()["name"] == "better"
    api.post(f"{run}/cancel")
    assert api.post(f"{run}/retry").json()["name"] == "better"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "two\nlines"},
        {"name": " "},
        {"name": "\u200b"},
        {"notes": "\0"},
        {"tags": ["x"] * 33},
        {"seed": 1},
        {"notes": "x" * 20_001},
    ],
)
def test_only_what_can_be_changed_is_changed(api: TestClient, run: str, change: dict[str, Any]) -> None:
    before = api.get(run).json()
    assert api.patch(run, json=change).status_code == 422
    assert api.get(run).json() == before


def test_a_run_moves_to_a_project_that_its_editor_may_work_in(run: str, new_token: NewToken, anonymous: TestClient) -> None:
    admin = {"Authorization": f"Bearer {new_token('admin', 'root')}"}
    theirs = anonymous.post("/api/v1/projects", json={"name": "theirs"}, headers=admin).json()["id"]
    own = {"Authorization": f"Bearer {new_token('editor', 'eve')}"}
    assert anonymous.patch(run, json={"project_id": theirs}, headers=own).status_code == 404, "out of sight"
    assert anonymous.patch(run, json={"project_id": theirs}, headers=admin).json()["project_id"] == theirs
    anonymous.patch(f"/api/v1/projects/{theirs}", json={"archived": True}, headers=admin)
    other = anonymous.get("/api/v1/projects", headers=admin).json()["items"][0]["id"]
    assert anonymous.patch(run, json={"project_id": other}, headers=admin).json()["project_id"] == other
    assert anonymous.patch(run, json={"project_id": theirs}, headers=admin).status_code == 409


def test_only_admins_give_a_run_to_another_owner(run: str, new_token: NewToken, anonymous: TestClient) -> None:
    admin, own = ({"Authorization": f"Bearer {new_token(role, role + '2')}"} for role in ("admin", "editor"))
    assert anonymous.patch(run, json={"owner": "admin2"}, headers=own).status_code == 403
    assert anonymous.patch(run, json={"owner": "nobody"}, headers=admin).status_code == 404
    assert anonymous.patch(run, json={"owner": "editor2"}, headers=admin).json()["owner"] == "editor2"
