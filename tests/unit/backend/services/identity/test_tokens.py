"""Tokens: hashed, scoped, ending; tickets once; links for one file."""

import hashlib
import hmac
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken

from backend.api import create_app
from backend.database import Database
from backend.models import Token
from backend.services.identity import tokens
from backend.services.identity.tokens import identify, identify_link
from backend.settings import Settings
from longtail.schemas.credentials import Link, LinkKey, Secret, keep_private, write_private

PATH = "/api/v1/artifacts/0123456789abcdef/download"
SERVER_SECRET = b"a server's"


def as_user(client: TestClient, token: str) -> TestClient:
    client.headers["Authorization"] = f"Bearer {token}"
    return client


def row(database: Database, secret: str) -> Token:
    parsed = Secret.parse(secret)
    assert parsed is not None
    with database.read() as session:
        return session.get_one(Token, parsed.id)


def test_secrets_are_random_and_kept_as_a_hash_only(database: Database, new_token: NewToken) -> None:
    secrets = [new_token("viewer", f"user-{number}") for number in range(20)]
    assert len({secret[20:] for secret in secrets}) == 20
    for secret in secrets:
        stored = row(database, secret)
        assert secret[20:] not in str(vars(stored))
        assert len(stored.digest) == 64


def test_secrets_are_compared_in_constant_time(database: Database, new_token: NewToken, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, compare = [], hmac.compare_digest

    def watched(one: str, other: str) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(tokens.hmac, "compare_digest", watched)  # type: ignore[attr-defined]
    secret = new_token("viewer")
    with database.read() as session:
        assert identify(session, secret[:-1] + ("A" if secret[-1] != "A" else "B")) is None
        assert identify(session, secret) is not None
    assert len(compared) >= 2


@pytest.mark.parametrize(
    "text", ["", "lt_", "x" * 10_000, "lt_0123456789abcdef_\0", "lt_0123456789abcdef_" + "é" * 43, "lt_" + "٣" * 16 + "_" + "A" * 43]
)
def test_other_text_is_no_secret(database: Database, text: str) -> None:
    with database.read() as session:
        assert identify(session, text) is None
        assert identify_link(session, text, PATH, SERVER_SECRET) is None


def test_tokens_end(anonymous: TestClient, database: Database, new_token: NewToken, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_token("editor", seconds=60)
    brief = as_user(anonymous, secret)
    assert brief.get("/api/v1/me").status_code == 200
    ending = row(database, secret).expires_at
    assert ending is not None
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: ending + 0.001)
        assert brief.get("/api/v1/me").status_code == 401
    revoked = as_user(anonymous, new_token("viewer"))
    token_id = revoked.get("/api/v1/me").json()["token_id"]
    assert revoked.delete(f"/api/v1/tokens/{token_id}").status_code == 204
    assert revoked.get("/api/v1/me").status_code == 401
    with database.read() as session:
        assert session.get_one(Token, token_id).revoked_at is not None


def test_a_token_is_shown_once_with_its_scope_and_end(api: TestClient) -> None:
    made = api.post("/api/v1/tokens", json={"name": "ci <b>", "scope": "viewer", "days": 1}).json()
    listed = api.get("/api/v1/tokens").json()["items"]
    assert [token["name"] for token in listed] == ["ci <b>", "a test's"]
    assert all(set(token) == set(made) - {"token"} for token in listed)
    assert made["token"] not in str(listed)
    reply = api.get("/api/v1/me", headers={"Authorization": f"Bearer {made['token']}"}).json()
    assert (reply["user"], reply["role"], reply["user_role"]) == ("editor", "viewer", "editor")
    assert api.post("/api/v1/tokens", json={"name": "more", "scope": "admin"}).status_code == 403


def test_the_tokens_of_others_are_not_there(api: TestClient, new_token: NewToken) -> None:
    other = Secret.parse(new_token("viewer"))
    assert other is not None
    assert api.get("/api/v1/tokens?everyone=true").status_code == 403
    assert api.delete(f"/api/v1/tokens/{other.id}").status_code == 404
    as_user(api, new_token("admin"))
    assert other.id in [token["id"] for token in api.get("/api/v1/tokens?everyone=true").json()["items"]]
    assert api.delete(f"/api/v1/tokens/{other.id}").status_code == 204


FEW = 3


@pytest.fixture
def few(settings: Settings, database: Database) -> TestClient:  # noqa: ARG001 - the tables have to be there
    """An API where each user has few tokens."""
    return TestClient(create_app(settings.model_copy(update={"tokens_per_user": FEW})), base_url="http://localhost")


@pytest.mark.parametrize("way", ["one by one", "at once"])
def test_a_user_has_so_many_tokens(few: TestClient, new_token: NewToken, way: str) -> None:
    as_user(few, new_token("viewer"))
    with ThreadPoolExecutor(8 if way == "at once" else 1) as pool:
        replies = list(pool.map(lambda _: few.post("/api/v1/tokens", json={"name": "more", "scope": "viewer"}), range(8)))
    assert sorted(reply.status_code for reply in replies) == [201] * (FEW - 1) + [409] * (9 - FEW)
    made = next(reply.json()["id"] for reply in replies if reply.status_code == 201)
    assert few.delete(f"/api/v1/tokens/{made}").status_code == 204
    assert few.post("/api/v1/tokens", json={"name": "more", "scope": "viewer"}).status_code == 201
    as_user(few, new_token("admin"))
    user_id = next(user["id"] for user in few.get("/api/v1/users").json()["items"] if user["name"] == "viewer")
    assert few.post(f"/api/v1/users/{user_id}/tokens", json={"name": "more", "scope": "viewer"}).status_code == 409
    assert few.post("/api/v1/tokens", json={"name": "more"}).status_code == 201, "others have their own"


@pytest.mark.parametrize("kind", ["session", "ticket"])
def test_the_oldest_session_or_ticket_gives_way(few: TestClient, database: Database, new_token: NewToken, kind: str) -> None:
    token = new_token("viewer")
    as_user(few, token)
    made = [
        few.post("/api/v1/tickets").json()["ticket"]
        if kind == "ticket"
        else few.post("/api/v1/sessions", json={"token": token}).json()["token"]
        for _ in range(FEW + 2)
    ]
    with database.read() as session:
        assert [identify(session, each, [kind]) is not None for each in made] == [False] * 2 + [True] * FEW
        assert session.query(Token).filter_by(kind=kind).count() == FEW


def test_a_use_is_noted_now_and_then(api: TestClient) -> None:
    api.get("/api/v1/me")
    first = api.get("/api/v1/tokens").json()["items"][0]["last_used_at"]
    assert first is not None
    assert api.get("/api/v1/tokens").json()["items"][0]["last_used_at"] == first


def test_a_link_opens_one_download_for_a_while(database: Database, new_token: NewToken, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.parse(new_token("viewer"))
    assert secret is not None
    key = LinkKey.of(secret.id, SERVER_SECRET)
    link = key.link(PATH)
    parsed = Link.parse(link)
    assert parsed is not None

    def opened(text: str, path: str = PATH, server_secret: bytes = SERVER_SECRET) -> bool:
        with database.read() as session:
            return identify_link(session, text, path, server_secret) is not None

    assert opened(link)
    assert not opened(link, PATH.replace("0", "1"))
    assert not opened(link.replace(f".{parsed.expires}.", f".{parsed.expires + 1}."))
    assert not opened(f"{link[:-1]}{'0' if link[-1] != '0' else '1'}")
    assert not opened(link, PATH, b"another")
    year = int(time.time()) + 365 * 24 * 3600
    assert not opened(f"{secret.id}.{year}.{key.signature(PATH, year)}"), "too long"
    for path in ("/api/v1/me", "/api/v1/export/runs", PATH.removesuffix("/download"), f"{PATH}/", PATH.replace("0", "x")):
        assert not opened(key.link(path), path), "no download"
    monkeypatch.setattr(time, "time", lambda: float(parsed.expires))
    assert not opened(link)


def test_what_the_database_holds_signs_nothing(anonymous: TestClient, database: Database, new_token: NewToken) -> None:
    """Who reads it, or a backup of it, has the digests of all tokens."""
    stored = row(database, new_token("admin"))
    expires = int(time.time()) + 60
    for key in (stored.digest, hashlib.sha256(stored.digest.encode()).hexdigest(), "0" * 64):
        forged = f"{stored.id}.{expires}.{LinkKey(token_id=stored.id, key=key).signature(PATH, expires)}"
        assert anonymous.get(f"{PATH}?link={forged}").status_code == 401
    assert as_user(anonymous, stored.digest).get("/api/v1/me").status_code == 401


def test_a_link_opens_nothing_else_and_ends_with_its_token(anonymous: TestClient, settings: Settings, new_token: NewToken) -> None:
    token = new_token("editor")
    key = LinkKey.model_validate(as_user(anonymous, token).get("/api/v1/me/link-key").json())
    link = key.link(PATH)
    assert settings.secret_file.stat().st_mode & 0o777 == 0o600
    del anonymous.headers["Authorization"]
    assert anonymous.get("/api/v1/me/link-key").status_code == 401
    assert anonymous.get(f"{PATH}?link={link}").status_code == 404, "let in, but there is no such file"
    assert anonymous.get(f"/api/v1/me?link={key.link('/api/v1/me')}").status_code == 401
    assert anonymous.post(f"/api/v1/tickets?link={key.link('/api/v1/tickets')}").status_code == 401
    assert as_user(anonymous, token).delete(f"/api/v1/tokens/{key.token_id}").status_code == 204
    del anonymous.headers["Authorization"]
    assert anonymous.get(f"{PATH}?link={link}").status_code == 401


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "a" / "secret"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda number: keep_private(file, f"secret {number}"), range(64)))
    assert (found, file.stat().st_mode & 0o777) == ({file.read_text()}, 0o600)
    assert list(file.parent.iterdir()) == [file]


def test_private_files_are_private(tmp_path: Path) -> None:
    file = tmp_path / "a" / "token"
    write_private(file, "first")
    write_private(file, "second")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("second", 0o600)
    assert list(file.parent.iterdir()) == [file]
