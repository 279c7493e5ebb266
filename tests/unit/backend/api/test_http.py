"""What HTTP asks of any API: HEAD, media types, where a new thing is, and nothing sent twice."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from new_token import NewToken
from running_server import Running

from backend.database import Database
from backend.models import AuditEntry
from backend.settings import Settings
from longtail import Longtail

RUNS = "/api/v1/runs"
MISSING = "0" * 16


@pytest.fixture
def admin(anonymous: TestClient, new_token: NewToken) -> TestClient:
    anonymous.headers["Authorization"] = f"Bearer {new_token('admin')}"
    return anonymous


@pytest.fixture
def tracked(admin: TestClient) -> str:
    return f"{RUNS}/{admin.post(f'{RUNS}/tracked', json={'name': 'mine'}).json()['id']}"


# --- HEAD


def test_head_is_get_without_its_body_wherever_there_is_get(admin: TestClient, tracked: str) -> None:
    app = admin.app
    assert isinstance(app, FastAPI)
    admin.post(f"{tracked}/finish", json={"state": "succeeded"})
    run_id = tracked.rpartition("/")[2]
    for template in app.openapi()["paths"]:
        path = "/".join(({"{run_id}": run_id}.get(part, MISSING) if part.startswith("{") else part) for part in template.split("/"))
        head, get = admin.head(path), admin.get(path)
        assert (head.status_code, head.content) == (get.status_code, b""), path
        assert (head.headers["content-type"], head.headers["x-frame-options"]) == (get.headers["content-type"], "DENY"), path


@pytest.mark.parametrize("path", ["/api/v1/me", RUNS, "/metrics", "/nowhere", "/openapi.json", "/api/v1/audit"])
def test_head_needs_what_get_needs(anonymous: TestClient, new_token: NewToken, path: str) -> None:
    assert anonymous.head(path).status_code == 401
    asked = {"Authorization": f"Bearer {new_token('viewer')}"}
    assert anonymous.head(path, headers=asked).status_code == anonymous.get(path, headers=asked).status_code


def test_what_may_be_asked_names_head(admin: TestClient) -> None:
    assert set(admin.delete(RUNS).headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert set(admin.head("/api/v1/tickets").headers["allow"].split(", ")) == {"POST"}


def test_head_of_what_would_go_on_for_long_ends_and_holds_nothing(running: Running, settings: Settings) -> None:
    """An open stream of events, exports, a download: more of them than there are streams or connections to the database."""
    client = Longtail(running.url, settings.token_file.read_text())
    run_id = client.begin("mine").id
    headers = {"Authorization": f"Bearer {client.token}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=20, trust_env=False) as http:
        uploaded = http.post(f"{RUNS}/{run_id}/artifacts?name=notes.txt", content=b"x" * 2**22).json()["id"]
        paths = (f"{RUNS}/{run_id}/events", "/api/v1/export/runs", f"/api/v1/artifacts/{uploaded}/download")
        for path in paths * 20:
            reply = http.head(path)
            assert (reply.status_code, reply.content) == (200, b""), path
        assert reply.headers["content-length"] == str(2**22)
        assert http.get(paths[1]).status_code == 200


# --- media types


JSON = b'{"name": "mine"}'


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("Application/JSON", 201),
        ("application/problem+json", 201),
        ("text/plain", 415),
        ("text/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("text/plain; application/json", 415),
        ("text/plain;+json", 415),
        ("json", 415),
        ("", 415),
        (None, 415),
        ("x" * 5000, 415),
        ("application/json\xff", 415),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_body_says_that_it_is_json(admin: TestClient, kind: str | None, status: int) -> None:
    headers = {} if kind is None else {"content-type": kind.encode("latin-1")}
    reply = admin.post(f"{RUNS}/tracked", content=JSON, headers=headers)  # type: ignore[arg-type]
    assert reply.status_code == status, reply.text
    chunked = admin.post(f"{RUNS}/tracked", content=iter([JSON]), headers=headers)  # type: ignore[arg-type]
    assert chunked.status_code == status
    if status == 415:
        assert reply.headers["content-type"] == "application/problem+json"
        assert "Content-Type: application/json" in reply.json()["detail"]


def test_who_may_not_is_told_that_first_and_no_body_is_no_wrong_one(anonymous: TestClient, new_token: NewToken, run_id: str) -> None:
    viewer, editor = ({"Authorization": f"Bearer {new_token(role)}", "content-type": "text/plain"} for role in ("viewer", "editor"))
    assert anonymous.post(f"{RUNS}/tracked", content=JSON, headers=viewer).status_code == 403
    assert anonymous.post(f"{RUNS}/tracked", headers=editor).status_code == 422
    assert anonymous.post(f"{RUNS}/{run_id}/cancel", headers=editor).status_code == 200
    upload = anonymous.post(f"{RUNS}/{run_id}/artifacts?name=notes.txt", content=b"any", headers=editor)
    assert upload.status_code == 201


# --- Location

MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "track": (f"{RUNS}/tracked", {"json": {"name": "mine"}}),
    "project": ("/api/v1/projects", {"json": {"name": "new"}}),
    "user": ("/api/v1/users", {"json": {"name": "ada"}}),
    "token": ("/api/v1/tokens", {"json": {"name": "ci"}}),
    "webhook": ("/api/v1/webhooks", {"json": {"url": "https://203.0.113.7/", "events": ["run.failed"]}}),
}


@pytest.mark.parametrize("kind", MADE)
def test_what_is_made_says_where_it_is(admin: TestClient, kind: str) -> None:
    path, body = MADE[kind]
    reply = admin.post(path, **body)
    assert reply.status_code == 201, reply.text
    assert reply.headers["location"] == f"{path.removesuffix('/tracked')}/{reply.json()['id']}"
    assert admin.request("PROPFIND", reply.headers["location"]).status_code == 405, "there is something"


def test_runs_and_files_say_where_they_are_once(api: TestClient, config: dict[str, Any]) -> None:
    key = {"Idempotency-Key": "k"}
    first, again = (api.post(RUNS, json={"config": config}, headers=key) for _ in range(2))
    path = f"{RUNS}/{first.json()['id']}"
    assert (first.headers["location"], again.status_code, "location" in again.headers) == (path, 200, False)
    cloned = api.post(f"{path}/clone", json={})
    assert api.get(cloned.headers["location"]).json()["parent_id"] == first.json()["id"]
    api.post(f"{path}/cancel")
    assert api.get(api.post(f"{path}/retry").headers["location"]).json()["parent_id"] == first.json()["id"]
    uploaded, same = (api.post(f"{path}/artifacts?name=notes.txt", content=b"text") for _ in range(2))
    assert api.get(uploaded.headers["location"]).json()["name"] == "notes.txt"
    assert (same.status_code, "location" in same.headers) == (200, False)


def test_a_token_for_another_and_a_session_are_among_the_tokens(admin: TestClient) -> None:
    user = admin.post("/api/v1/users", json={"name": "ada"}).json()["id"]
    made = admin.post(f"/api/v1/users/{user}/tokens", json={"name": "first"})
    session = admin.post("/api/v1/sessions", json={"token": made.json()["token"]})
    for reply in (made, session):
        assert admin.delete(reply.headers["location"]).status_code == 204


# --- ETags

NAMES: dict[str, tuple[Callable[[str], str], int]] = {
    "the one": (lambda tag: tag, 304),
    "a weak one": (lambda tag: f"W/{tag}", 304),
    "among others": (lambda tag: f'"x", {tag} ,W/"y"', 304),
    "any": (lambda _: "*", 304),
    "another": (lambda _: '"x"', 200),
    "without quotes": (lambda tag: tag.strip('"'), 200),
    "a part": (lambda tag: tag[:4] + '"', 200),
    "none": (lambda _: "", 200),
    "nonsense": (lambda _: '",,W/,"', 200),
}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("of", ["run", "file"])
def test_who_has_it_is_not_sent_it_again(admin: TestClient, tracked: str, of: str, names: str) -> None:
    path = tracked
    if of == "file":
        path = f"/api/v1/artifacts/{admin.post(f'{tracked}/artifacts?name=notes.txt', content=b'text').json()['id']}/download"
    whole = admin.get(path)
    spell, status = NAMES[names]
    for method in ("GET", "HEAD"):
        reply = admin.request(method, path, headers={"If-None-Match": spell(whole.headers["etag"])})
        assert (reply.status_code, reply.headers["etag"]) == (status, whole.headers["etag"])
        assert reply.content == (whole.content if (method, status) == ("GET", 200) else b"")


def test_a_run_that_went_on_is_another_state_but_no_other_revision(admin: TestClient, tracked: str) -> None:
    seen = admin.get(tracked).headers["etag"]
    admin.post(f"{tracked}/batches", json={"id": "1", "series": [{"key": "loss", "points": [[0, 1.0]]}]})
    changed = admin.get(tracked, headers={"If-None-Match": seen})
    assert (changed.status_code, changed.json()["step"]) == (200, 1)
    assert admin.patch(tracked, json={"notes": "seen"}, headers={"If-Match": seen}).status_code == 200
    assert admin.patch(tracked, json={"notes": "late"}, headers={"If-Match": seen}).status_code == 412


# --- the audit of batches


def test_batches_are_audited_now_and_then(admin: TestClient, tracked: str, new_token: NewToken, database: Database) -> None:
    def audited() -> list[tuple[str, str]]:
        with database.read() as session:
            query = session.query(AuditEntry).filter_by(action="ingest").order_by(AuditEntry.id)
            return [(entry.user_name, entry.object) for entry in query]

    def send(batch: str, status: int = 200, token: str = "", point: float = 1.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        body = {"id": batch, "series": [{"key": "loss", "points": [[0, point]]}]}
        assert admin.post(f"{tracked}/batches", json=body, headers=headers).status_code == status

    run = tracked.removeprefix("/api/v1/")
    other = new_token("editor")
    for batch in ("1", "2", "2"):
        send(batch)
    send("2", 409, point=2.0)
    assert audited() == [("admin", run)]
    send("2", token=other)
    assert audited() == [("admin", run)], "sent again, it writes nothing"
    send("3", token=other)
    send("4", token=other)
    assert audited() == [("admin", run), ("editor", run)]
    admin.app.state.batch_audit_turns._clock = lambda: 1e12  # type: ignore[attr-defined]
    send("5")
    assert audited() == [("admin", run), ("editor", run), ("admin", run)]
    admin.post(f"{tracked}/finish", json={"state": "succeeded"})
    admin.app.state.batch_audit_turns._clock = lambda: 2e12  # type: ignore[attr-defined]
    send("6", 409)
    assert len(audited()) == 3, "what is refused has written nothing"
