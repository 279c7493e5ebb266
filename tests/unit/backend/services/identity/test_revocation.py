"""What is taken back holds at once, for all that has come of it and however it came about."""

import threading
from collections.abc import Callable

import httpx
import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from running_server import Running

from backend.api.routes import events
from backend.database import Database
from backend.models import Membership, Token, User
from backend.services.identity import tokens, users
from longtail import Longtail
from longtail.schemas.credentials import Secret

LONG = "correct horse battery"
CHAINS = [["token"], ["session", "token"], ["ticket", "token"], ["token", "token"], ["token", "session", "token", "ticket", "token"]]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def works(client: TestClient, secret: str) -> bool:
    return client.get("/api/v1/me", headers=bearer(secret)).status_code == 200


def id_of(secret: str) -> str:
    parsed = Secret.parse(secret)
    assert parsed is not None
    return parsed.id


def made_with(client: TestClient, secret: str, kind: str, days: int | None = None) -> str:
    """A token, or a session by way of a token or of a ticket."""
    if kind == "token":
        made = client.post("/api/v1/tokens", json={"name": "made", "scope": "viewer", "days": days}, headers=bearer(secret))
        return str(made.json()["token"])
    ticket = client.post("/api/v1/tickets", headers=bearer(secret)).json()["ticket"]
    proof = {"ticket": ticket} if kind == "ticket" else {"token": secret}
    return str(client.post("/api/v1/sessions", json=proof).json()["token"])


def chain(client: TestClient, secret: str, kinds: list[str]) -> list[str]:
    secrets = [secret]
    for kind in kinds:
        secrets.append(made_with(client, secrets[-1], kind))
    return secrets


@pytest.fixture
def ada(anonymous: TestClient, database: Database) -> str:
    """A session that a password has opened."""
    with database.write() as session:
        users.create(session, "ada", "viewer", LONG)
    return str(anonymous.post("/api/v1/sessions", json={"user": "ada", "password": LONG}).json()["token"])


@pytest.mark.parametrize("kinds", CHAINS, ids="-".join)
def test_all_that_is_made_with_a_token_ends_with_it(anonymous: TestClient, new_token: NewToken, kinds: list[str]) -> None:
    secrets = chain(anonymous, new_token("viewer"), kinds)
    assert all(works(anonymous, secret) for secret in secrets)
    assert anonymous.delete(f"/api/v1/tokens/{id_of(secrets[0])}", headers=bearer(secrets[-1])).status_code == 204
    assert not any(works(anonymous, secret) for secret in secrets)


@pytest.mark.parametrize("kinds", CHAINS, ids="-".join)
@pytest.mark.parametrize("days", [None, 90])
def test_nothing_outlives_the_token_that_it_comes_from(
    anonymous: TestClient, database: Database, new_token: NewToken, kinds: list[str], days: int | None
) -> None:
    secrets = chain(anonymous, new_token("viewer", seconds=60), kinds)
    secrets.append(made_with(anonymous, secrets[-1], "token", days))
    with database.read() as session:
        ends = [session.get_one(Token, id_of(secret)).expires_at for secret in secrets]
    assert all(end is not None and end <= ends[0] for end in ends)  # type: ignore[operator]


def test_a_token_that_an_admin_makes_for_themself_is_one_like_any_other(anonymous: TestClient, new_token: NewToken) -> None:
    first, second = new_token("admin", seconds=60), new_token("admin", "second")
    me = next(user for user in anonymous.get("/api/v1/users", headers=bearer(first)).json()["items"] if user["name"] == "admin")
    own = anonymous.post(f"/api/v1/users/{me['id']}/tokens", json={"name": "x", "scope": "admin"}, headers=bearer(first)).json()["token"]
    assert anonymous.delete(f"/api/v1/tokens/{id_of(first)}", headers=bearer(second)).status_code == 204
    assert not works(anonymous, own)


def test_a_session_of_which_a_token_comes_is_not_forgotten(
    anonymous: TestClient, database: Database, new_token: NewToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, session, heir = chain(anonymous, new_token("viewer"), ["session", "token"])
    with database.write() as stored:
        stored.get_one(Token, id_of(session)).expires_at = 1.0
    monkeypatch.setattr(tokens, "KEEP_SECONDS", 0)
    made_with(anonymous, heir, "token")
    assert anonymous.delete(f"/api/v1/tokens/{id_of(token)}", headers=bearer(heir)).status_code == 204
    assert not works(anonymous, heir)


@pytest.mark.parametrize(("way", "lives"), [("sessions/current", True), ("tokens/{}", False)])
def test_logging_out_leaves_tokens_and_revoking_a_session_does_not(anonymous: TestClient, ada: str, way: str, lives: bool) -> None:
    token, heir = made_with(anonymous, ada, "token"), made_with(anonymous, ada, "ticket")
    assert anonymous.delete(f"/api/v1/{way.format(id_of(ada))}", headers=bearer(ada)).status_code == 204
    assert [works(anonymous, secret) for secret in (ada, heir, token)] == [False, False, lives]


@pytest.mark.parametrize("who", ["session", "token", "admin"])
def test_a_new_password_ends_what_the_old_one_may_have_made(
    anonymous: TestClient, database: Database, new_token: NewToken, ada: str, who: str
) -> None:
    token, heir = made_with(anonymous, ada, "token"), chain(anonymous, ada, ["ticket", "token"])[-1]
    with database.write() as session:
        user = session.query(User).filter_by(name="ada").one()
        handed_out = tokens.issue(session, user, "token", "from an admin", "viewer", None)[1]
        path = f"/api/v1/users/{user.id}"
    if who == "admin":
        assert anonymous.patch(path, json={"password": LONG + "!"}, headers=bearer(new_token("admin"))).status_code == 200
    else:
        body = {"current": LONG, "new": LONG + "!"}
        asking = {"session": ada, "token": token}[who]
        assert anonymous.put("/api/v1/me/password", json=body, headers=bearer(asking)).status_code == 204
    left = {name for name, secret in (("session", ada), ("token", token), ("heir", heir)) if works(anonymous, secret)}
    assert left == {who} - {"admin"}
    assert works(anonymous, handed_out)


# --- what is open already

TAKEN_BACK: dict[str, Callable[[Longtail, Database, str], object]] = {
    "token": lambda client, _, token: client.revoke_token(id_of(token)),
    "user": lambda _, database, token: change(database, token, disabled=True),
    "expiry": lambda _, database, token: end(database, token),
    "membership": lambda _, database, token: leave(database, token),
}


def change(database: Database, token: str, disabled: bool) -> None:
    with database.write() as session:
        session.get_one(Token, id_of(token)).user.disabled = disabled


def end(database: Database, token: str) -> None:
    with database.write() as session:
        session.get_one(Token, id_of(token)).expires_at = 1.0


def leave(database: Database, token: str) -> None:
    with database.write() as session:
        session.query(Membership).filter_by(user_id=session.get_one(Token, id_of(token)).user_id).delete()


@pytest.mark.parametrize("what", TAKEN_BACK)
def test_an_open_stream_ends_with_the_right_to_see_it(
    client: Longtail, running: Running, database: Database, new_token: NewToken, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.02)
    token, run_id = new_token("viewer"), client.begin("mine").id
    url = f"{running.url}/api/v1/runs/{run_id}/events"
    with httpx.stream("GET", url, headers=bearer(token), timeout=120, trust_env=False) as stream:
        lines = stream.iter_lines()
        assert "event: run" in next(lines)
        TAKEN_BACK[what](client, database, token)
        rest: list[str] = []
        reader = threading.Thread(target=lambda: rest.extend(lines), daemon=True)
        reader.start()
        reader.join(60)
        assert not reader.is_alive(), "it goes on"
