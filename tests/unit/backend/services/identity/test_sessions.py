"""Logging in: by password, token or ticket; how often one may fail; what is written down."""

from functools import partial

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken

from backend.api import create_app
from backend.api.rate_limits import RateLimit
from backend.database import Database
from backend.models import AuditEntry, Token
from backend.services.identity import users
from backend.settings import Settings

LONG = "correct horse battery"


@pytest.fixture
def ada(database: Database) -> str:
    with database.write() as session:
        return users.create(session, "ada", "editor", LONG).name


def me(client: TestClient, token: str) -> int:
    return client.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code


def open_by(client: TestClient, **proof: str) -> str:
    reply = client.post("/api/v1/sessions", json=proof)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["token"])


def test_a_session_ends_by_logging_out(anonymous: TestClient, ada: str) -> None:
    session = open_by(anonymous, user=ada, password=LONG)
    assert me(anonymous, session) == 200
    assert anonymous.delete("/api/v1/sessions/current", headers={"Authorization": f"Bearer {session}"}).status_code == 204
    assert me(anonymous, session) == 401


def test_a_ticket_works_once(api: TestClient) -> None:
    ticket = api.post("/api/v1/tickets").json()["ticket"]
    assert me(api, ticket) == 401, "a ticket is no token"
    assert me(api, open_by(api, ticket=ticket)) == 200
    assert api.post("/api/v1/sessions", json={"ticket": ticket}).status_code == 401


def test_a_ticket_runs_out(api: TestClient, database: Database) -> None:
    ticket = api.post("/api/v1/tickets").json()["ticket"]
    with database.write() as session:
        session.query(Token).filter_by(kind="ticket").update({"expires_at": 1.0})
    assert api.post("/api/v1/sessions", json={"ticket": ticket}).status_code == 401


def test_what_comes_of_a_token_ends_with_it_and_may_no_more(anonymous: TestClient, database: Database, new_token: NewToken) -> None:
    token = new_token("admin", scope="viewer", seconds=3600)
    artifact_importer = new_token("admin", "artifact_importer")
    session = open_by(anonymous, token=token)
    ticket = anonymous.post("/api/v1/tickets", headers={"Authorization": f"Bearer {session}"}).json()["ticket"]
    heir = open_by(anonymous, ticket=ticket)
    with database.read() as stored:
        assert {row.scope for row in stored.query(Token).filter(Token.kind != "token")} == {"viewer"}
        assert all(0 < row.expires_at - row.created_at <= 3600 for row in stored.query(Token).filter_by(kind="session"))  # type: ignore[operator]
    token_id = token.split("_")[1]
    assert anonymous.delete(f"/api/v1/tokens/{token_id}", headers={"Authorization": f"Bearer {artifact_importer}"}).status_code == 204
    assert [me(anonymous, each) for each in (token, session, heir, artifact_importer)] == [401, 401, 401, 200]


def test_a_session_opens_no_session(api: TestClient, ada: str) -> None:
    session = open_by(api, user=ada, password=LONG)
    assert api.post("/api/v1/sessions", json={"token": session}).status_code == 401


@pytest.mark.parametrize(
    "proof", [{"user": "ada", "password": "wrong"}, {"user": "nobody", "password": LONG}, {"token": "x"}, {"ticket": "x"}]
)
@pytest.mark.usefixtures("ada")
def test_every_wrong_login_sounds_the_same_and_is_written_down(anonymous: TestClient, database: Database, proof: dict[str, str]) -> None:
    reply = anonymous.post("/api/v1/sessions", json=proof)
    assert (reply.status_code, reply.json()["detail"][:8]) == (401, "the user")
    with database.read() as session:
        entry = session.query(AuditEntry).one()
        assert (entry.action, entry.user_name, entry.address) == ("log_in_failed", proof.get("user", ""), "testclient")


def test_wrong_logins_are_limited_by_user_and_by_address(settings: Settings, database: Database, ada: str) -> None:  # noqa: ARG001
    app = create_app(settings.model_copy(update={"failed_logins_per_minute": 2.0}))
    client = TestClient(app, base_url="http://localhost")
    statuses = [client.post("/api/v1/sessions", json={"user": ada, "password": "wrong"}).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    refused = client.post("/api/v1/sessions", json={"user": ada, "password": LONG})
    assert (refused.status_code, 0 < int(refused.headers["retry-after"]) <= 31) == (429, True)
    others = [client.post("/api/v1/sessions", json={"user": f"user{number}", "password": "x"}).status_code for number in range(5)]
    assert others == [401, 401, 429, 429, 429], "six from one address"


def test_right_logins_are_not_limited(settings: Settings, database: Database, ada: str) -> None:  # noqa: ARG001
    client = TestClient(create_app(settings.model_copy(update={"failed_logins_per_minute": 1.0})), base_url="http://localhost")
    for _ in range(4):
        open_by(client, user=ada, password=LONG)


def test_one_token_is_limited_and_others_are_not(settings: Settings, new_token: NewToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.api.middleware.authentication.RateLimit", partial(RateLimit, clock=lambda: 0.0))
    client = TestClient(create_app(settings.model_copy(update={"requests_per_second": 2.0})), base_url="http://localhost")
    busy, other = new_token("viewer"), new_token("editor")
    assert [me(client, busy) for _ in range(5)] == [200] * 4 + [429]
    assert me(client, other) == 200


@pytest.mark.parametrize("kind", ["token", "session"])
def test_more_tokens_are_no_more_requests(
    settings: Settings, anonymous: TestClient, new_token: NewToken, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    first, other = new_token("viewer"), new_token("editor")
    made = [made_with(anonymous, first, kind) for _ in range(4)]
    monkeypatch.setattr("backend.api.middleware.authentication.RateLimit", partial(RateLimit, clock=lambda: 0.0))
    client = TestClient(create_app(settings.model_copy(update={"requests_per_second": 1.0})), base_url="http://localhost")
    assert [me(client, token) for token in made for _ in range(2)] == [200] * 4 + [429] * 4
    assert me(client, other) == 200


def made_with(client: TestClient, token: str, kind: str) -> str:
    if kind == "session":
        return open_by(client, token=token)
    made = client.post("/api/v1/tokens", json={"name": "more", "scope": "viewer"}, headers={"Authorization": f"Bearer {token}"})
    return str(made.json()["token"])


def test_every_write_says_who_did_what_to_what_from_where(api: TestClient, database: Database, config: dict[str, object]) -> None:
    run_id = api.post("/api/v1/runs", json={"config": config}).json()["id"]
    api.post(f"/api/v1/runs/{run_id}/cancel")
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status_code == 409
    with database.read() as session:
        entries = session.query(AuditEntry).order_by(AuditEntry.id).all()
    assert [(entry.action, entry.object) for entry in entries] == [("submit", f"runs/{run_id}"), ("cancel", f"runs/{run_id}")]
    assert {(entry.user_name, entry.address) for entry in entries} == {("editor", "testclient")}


def test_the_log_is_read_by_pages(anonymous: TestClient, new_token: NewToken) -> None:
    anonymous.headers["Authorization"] = f"Bearer {new_token('admin')}"
    for number in range(5):
        anonymous.post("/api/v1/users", json={"name": f"user{number}"})
    seen, cursor = [], ""
    while True:
        page = anonymous.get(f"/api/v1/audit?limit=2{cursor}").json()
        seen += [entry["id"] for entry in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert (len(seen), seen) == (5, sorted(seen, reverse=True))
    assert anonymous.get("/api/v1/audit?user=somebody").json()["items"] == []
