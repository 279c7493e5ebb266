"""Users, their passwords, and that somebody can always administer."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken

from backend.api import create_app
from backend.database import Database
from backend.models import Token, User
from backend.settings import Settings

LONG = "correct horse battery"


@pytest.fixture
def admin(anonymous: TestClient, new_token: NewToken) -> TestClient:
    anonymous.headers["Authorization"] = f"Bearer {new_token('admin', 'root')}"
    return anonymous


def log_in(client: TestClient, user: str, password: str) -> Any:
    return client.post("/api/v1/sessions", json={"user": user, "password": password})


def user_id(client: TestClient, name: str) -> str:
    return next(str(user["id"]) for user in client.get("/api/v1/users").json()["items"] if user["name"] == name)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_user_comes_by_password_and_by_token(admin: TestClient, database: Database) -> None:
    made = admin.post("/api/v1/users", json={"name": "ada", "role": "viewer", "password": LONG}).json()
    assert (made["name"], made["role"], made["has_password"]) == ("ada", "viewer", True)
    session = log_in(admin, "ada", LONG).json()["token"]
    assert admin.get("/api/v1/me", headers=bearer(session)).json()["user"] == "ada"
    token = admin.post(f"/api/v1/users/{made['id']}/tokens", json={"name": "laptop", "scope": "viewer"}).json()["token"]
    assert admin.get("/api/v1/me", headers=bearer(token)).json()["role"] == "viewer"
    assert admin.post(f"/api/v1/users/{made['id']}/tokens", json={"name": "x", "scope": "admin"}).status_code == 403
    assert admin.post("/api/v1/users", json={"name": "ada"}).status_code == 409
    with database.read() as stored:
        assert (stored.query(User).filter_by(name="ada").one().password_hash or "").startswith("$argon2id$")


@pytest.mark.parametrize(
    "body", [{"name": "Ada"}, {"name": "<b>"}, {"name": "../x"}, {"name": "a", "password": "short"}, {"name": "a", "role": "god"}]
)
def test_impossible_users(admin: TestClient, body: dict[str, str]) -> None:
    assert admin.post("/api/v1/users", json=body).status_code == 422


def test_no_error_repeats_a_secret(admin: TestClient) -> None:
    short, long = "too-short", "too-long-" * 30
    for method, path, body in (
        ("POST", "users", {"name": "a", "password": short}),
        ("PUT", "me/password", {"current": long, "new": short}),
        ("POST", "sessions", {"user": "a", "password": long}),
        ("POST", "sessions", {"token": long}),
    ):
        reply = admin.request(method, f"/api/v1/{path}", json=body)
        assert reply.status_code == 422
        assert "too-" not in reply.text


def test_a_disabled_user_is_out_at_once(admin: TestClient) -> None:
    ada = admin.post("/api/v1/users", json={"name": "ada", "password": LONG}).json()["id"]
    session = log_in(admin, "ada", LONG).json()["token"]
    assert admin.patch(f"/api/v1/users/{ada}", json={"disabled": True}).json()["disabled"]
    assert admin.get("/api/v1/me", headers=bearer(session)).status_code == 401
    assert log_in(admin, "ada", LONG).status_code == 401
    admin.patch(f"/api/v1/users/{ada}", json={"disabled": False})
    assert admin.get("/api/v1/me", headers=bearer(session)).status_code == 200


def test_a_lesser_role_holds_at_once(admin: TestClient) -> None:
    ada = admin.post("/api/v1/users", json={"name": "ada", "password": LONG}).json()["id"]
    session = log_in(admin, "ada", LONG).json()["token"]
    admin.patch(f"/api/v1/users/{ada}", json={"role": "viewer"})
    assert admin.post("/api/v1/runs", json={"config": {}}, headers=bearer(session)).status_code == 403


def test_a_new_password_ends_other_sessions(admin: TestClient) -> None:
    admin.post("/api/v1/users", json={"name": "ada", "password": LONG})
    first, second = (log_in(admin, "ada", LONG).json()["token"] for _ in range(2))
    wrong = admin.put("/api/v1/me/password", json={"current": "wrong", "new": LONG + "!"}, headers=bearer(first))
    assert wrong.status_code == 403
    assert admin.put("/api/v1/me/password", json={"current": LONG, "new": LONG + "!"}, headers=bearer(first)).status_code == 204
    assert admin.get("/api/v1/me", headers=bearer(first)).status_code == 200
    assert admin.get("/api/v1/me", headers=bearer(second)).status_code == 401
    assert log_in(admin, "ada", LONG).status_code == 401


@pytest.mark.parametrize("change", [{"disabled": True}, {"role": "editor"}])
def test_the_last_admin_stays(admin: TestClient, change: dict[str, Any]) -> None:
    path = f"/api/v1/users/{user_id(admin, 'root')}"
    assert admin.patch(path, json=change).status_code == 409
    assert admin.get("/api/v1/me").json()["role"] == "admin"
    admin.post("/api/v1/users", json={"name": "second", "role": "admin"})
    assert admin.patch(path, json=change).status_code == 409, "the second has neither a password nor a token"
    admin.post("/api/v1/users", json={"name": "third", "role": "admin", "password": LONG})
    assert admin.patch(path, json=change).status_code == 200


def test_the_last_key_of_the_last_admin_stays(admin: TestClient) -> None:
    token_id = admin.get("/api/v1/me").json()["token_id"]
    assert admin.delete(f"/api/v1/tokens/{token_id}").status_code == 409
    assert admin.delete("/api/v1/sessions/current").status_code == 409
    assert admin.put("/api/v1/me/password", json={"new": LONG}).status_code == 204
    assert admin.delete("/api/v1/sessions/current").status_code == 204
    assert log_in(admin, "root", LONG).status_code == 201


def started(settings: Settings) -> str:
    """The token in the home after a start of the API."""
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        token = settings.token_file.read_text()
        assert client.get("/api/v1/me", headers=bearer(token)).status_code == 200
    return token


def test_the_first_start_lets_its_owner_in_and_later_ones_change_nothing(settings: Settings, database: Database) -> None:
    token = started(settings)
    assert settings.token_file.stat().st_mode & 0o777 == 0o600
    assert started(settings) == token
    with database.write() as session:
        session.query(Token).update({"expires_at": 1.0})
    assert started(settings) != token, "when nobody can administer any more, the machine's owner gets in again"
    with database.read() as session:
        assert [user.name for user in session.query(User)] == ["admin"]


def test_a_database_that_is_not_migrated_gets_no_admin(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        assert client.get("/readyz").status_code == 503
    assert not settings.token_file.exists()
