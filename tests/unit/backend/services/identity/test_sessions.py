"""Logging in: by password, token or ticket; how often one may fail; what is written down."""

from collections.abc import Iterator
from functools import partial

import httpx
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from new_token import NewToken
from running_server import Running

from backend.api import create_app
from backend.api.rate_limits import RateLimit
from backend.database import Database
from backend.models import AuditEntry, Token
from backend.services.identity import users
from backend.settings import Settings

LONG = "correct horse battery"
HERE = "192.0.2.1"


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


class Guessing:
    """Logs in from any address, with two wrong logins a minute."""

    def __init__(self, settings: Settings, user: str) -> None:
        self._app = create_app(settings.model_copy(update={"failed_logins_per_minute": 2.0}))
        self._user = user

    def ask(self, address: str, proof: dict[str, str]) -> Response:
        client = TestClient(self._app, base_url="http://localhost", client=(address, 5))
        return client.post("/api/v1/sessions", json=proof)

    def wrong(self, address: str, times: int, user: str = "") -> list[int]:
        return [self.ask(address, {"user": user or self._user, "password": "wrong"}).status_code for _ in range(times)]

    def right(self, address: str) -> int:
        return self.ask(address, {"user": self._user, "password": LONG}).status_code


@pytest.fixture
def guessing(settings: Settings, ada: str, monkeypatch: pytest.MonkeyPatch) -> Guessing:
    monkeypatch.setattr("backend.api.rate_limits.RateLimit", partial(RateLimit, clock=lambda: 0.0))
    return Guessing(settings, ada)


def test_wrong_logins_are_limited_by_user_and_by_address(guessing: Guessing) -> None:
    assert guessing.wrong(HERE, 3) == [401, 401, 429]
    refused = guessing.ask(HERE, {"user": "ada", "password": LONG})
    assert (refused.status_code, 0 < int(refused.headers["retry-after"]) <= 31) == (429, True)
    assert [guessing.wrong(HERE, 1, f"user{number}")[0] for number in range(5)] == [401] * 4 + [429], "six from one address"


@pytest.mark.parametrize("sites", [["10.0.0.7"], [f"10.0.0.{number}" for number in range(10)], ["2001:db8::1"]], ids=len)
def test_who_guesses_from_elsewhere_locks_nobody_out(guessing: Guessing, sites: list[str]) -> None:
    assert guessing.right(HERE) == 201
    for site in sites:
        guessing.wrong(site, 3)
    assert guessing.right(HERE) == 201
    assert guessing.wrong(sites[0], 1) == [429]


def test_one_guesser_does_not_even_keep_a_new_address_out(guessing: Guessing) -> None:
    guessing.wrong("10.0.0.7", 50)
    assert guessing.right(HERE) == 201


def test_many_addresses_together_have_a_limit_too(guessing: Guessing) -> None:
    statuses = [guessing.wrong(f"10.0.0.{number}", 1)[0] for number in range(21)]
    assert statuses == [401] * 20 + [429]


@pytest.mark.parametrize(
    ("addresses", "refused"),
    [
        (["2001:db8::1", "2001:db8::2", "2001:db8::ffff:3"], True),
        (["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"], False),
        (["::ffff:10.0.0.7", "10.0.0.7", "::ffff:a00:7"], True),
        (["fe80::1%eth0", "fe80::1%eth1", "fe80::2"], True),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], False),
        (["", "", ""], True),
    ],
)
def test_an_address_is_what_one_party_holds(guessing: Guessing, addresses: list[str], refused: bool) -> None:
    assert [guessing.wrong(address, 1)[0] for address in addresses] == [401, 401, 429 if refused else 401]


@pytest.mark.parametrize("kind", ["token", "ticket"])
def test_a_token_or_ticket_comes_in_beside_a_guesser(guessing: Guessing, api: TestClient, kind: str) -> None:
    ticket, token = api.post("/api/v1/tickets").json()["ticket"], api.headers["Authorization"].split()[1]
    for number in range(9):
        guessing.wrong(HERE, 1, f"user{number}")
    assert guessing.ask(HERE, {kind: {"token": token, "ticket": ticket}[kind]}).status_code == 201
    assert [guessing.ask(HERE, {kind: "lt_wrong"}).status_code for _ in range(7)] == [401] * 6 + [429]


def test_a_guesser_does_not_keep_the_user_from_a_new_password(guessing: Guessing) -> None:
    session = guessing.ask(HERE, {"user": "ada", "password": LONG}).json()["token"]
    guessing.wrong(HERE, 9)
    client = TestClient(guessing._app, base_url="http://localhost", headers={"Authorization": f"Bearer {session}"}, client=(HERE, 5))
    assert client.put("/api/v1/me/password", json={"current": "wrong", "new": LONG + "!"}).status_code == 403
    assert client.put("/api/v1/me/password", json={"current": LONG, "new": LONG + "!"}).status_code == 204


FORGED = [
    {"X-Forwarded-For": "10.0.0.7"},
    {"X-Forwarded-For": "10.0.0.7, 127.0.0.1"},
    {"X-Forwarded-For": "127.0.0.1, 10.0.0.7"},
    {"X-Forwarded-For": "[2001:db8::1]:80"},
    {"X-Real-IP": "10.0.0.7"},
    {"Forwarded": "for=10.0.0.7"},
    {"X-Forwarded-For": "10.0.0.7", "X-Forwarded-Proto": "https"},
]


@pytest.mark.parametrize("headers", FORGED, ids=str)
def test_nobody_is_believed_about_an_address(server: str, database: Database, headers: dict[str, str]) -> None:
    """Programs of this machine neither, unless the operator names them."""
    assert httpx.post(f"{server}/api/v1/sessions", json={"token": "x"}, headers=headers, timeout=60, trust_env=False).status_code == 401
    with database.read() as session:
        assert session.query(AuditEntry).one().address == "127.0.0.1"


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch, settings: Settings, database: Database) -> Iterator[Running]:  # noqa: ARG001
    """An API that believes this machine's proxy."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1")
    with Running(settings) as running:
        yield running


@pytest.mark.parametrize(
    ("said", "address"), [("10.0.0.7", "10.0.0.7"), ("6.6.6.6, 10.0.0.7", "10.0.0.7"), ("10.0.0.7, 127.0.0.1", "10.0.0.7")]
)
def test_who_is_named_is_believed_about_the_last_one(proxied: Running, database: Database, said: str, address: str) -> None:
    httpx.post(f"{proxied.url}/api/v1/sessions", json={"token": "x"}, headers={"X-Forwarded-For": said}, timeout=60, trust_env=False)
    with database.read() as session:
        assert session.query(AuditEntry).one().address == address


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
