"""What nobody sends in good faith is answered with what is wrong with it, never with a 500, whichever database there is."""

import base64
import json
import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response
from new_token import NewToken

from backend.api import create_app
from backend.api.unstorable_body import LEVELS, fault
from backend.settings import Settings

UNSTORABLE = {
    "half a character": rb'"\ud800"',
    "half a character, raw": b'"\xed\xb0\x80"',
    "half a character in a key": rb'{"a": {"\udfff": 1}}',
    "4000 digits": b"9" * 4000,
    "5000 digits": b"9" * 5000,
    "beyond floats": b"1e999",
    "no number": b"NaN",
    "lists": b"[" * 400 + b"]" * 400,
    "objects": b'{"a":' * 400 + b"1" + b"}" * 400,
    "lists without end": b"[" * 50_000,
}
"""Refused whatever is asked."""
PLACES = """
POST sessions            {"user": "admin", "password": $}
POST runs/tracked        {"name": "n", "config": {"a": $}}
POST runs/TRACKED/batches {"id": "1", "series": [{"key": "b", "points": [[0, $]]}]}
POST runs/validate       {"config": {}, "base": {"a": $}}
POST runs                {"config": {"drafter": {"spot": {"trigger": {"drift": $}}}}}
PUT me/password          $
"""
ODD = {
    "NUL": rb'"a\u0000b"',
    "NUL in a key": rb'{"a\u0000b": {"\u0000": 1}}',
    "last of 32 bits": b"2147483647",
    "beyond 32 bits": b"2147483648",
    "beyond 64 bits": b"-9223372036854775809",
    "long path": b'"/' + b"x/" * 2500 + b'"',
    "long file name": b'"/' + b"x" * 300 + b'.jsonl"',
}
"""Fine in some places."""
BODIES = """
POST sessions            $
POST sessions            {"user": $, "password": "x"}
POST sessions            {"token": $}
PUT me/password          {"current": $, "new": "x"}
POST tokens              {"name": $, "project_id": $, "days": $}
POST tokens              {"name": "n", "days": $}
POST users               {"name": $, "password": $}
PATCH users/QUEUED       {"password": $}
POST projects            {"name": "p", "description": $}
POST webhooks            {"url": $}
POST runs/tracked        {"name": $, "project_id": $}
POST runs/tracked        {"name": "n", "config": $}
POST runs/tracked        {"name": "n", "config": {"a": {"b": $}}}
POST runs/tracked        {"name": "n", "steps": $}
POST runs/tracked        {"name": "n", "tags": [$]}
POST runs/TRACKED/batches {"id": $}
POST runs/TRACKED/batches {"id": "1", "series": [{"key": $, "points": [[0, 1.0]]}]}
POST runs/TRACKED/batches {"id": "2", "series": [{"key": "a", "points": [[$, 1.0]]}]}
POST runs/TRACKED/batches {"id": "3", "series": [{"key": "b", "points": [[0, $]]}]}
POST runs/TRACKED/batches {"id": "4", "lines": [{"message": $}]}
POST runs/TRACKED/batches {"id": "5", "lines": [{"message": "m", "time": $, "step": $}]}
POST runs/TRACKED/finish {"state": "failed", "error": $}
PATCH runs/QUEUED        {"notes": $}
PATCH runs/QUEUED        {"tags": [$], "priority": $}
POST runs/validate       {"config": $}
POST runs/validate       {"config": {}, "base": {"a": $}}
POST runs/validate       {"config": {"seed": $}}
POST runs/validate       {"config": {"model": {"path": $}}}
POST runs/validate       {"config": {"drafter": {"path": $, "pretrain_responses": $}}}
POST runs/validate       {"config": {"task": {"name": "math", "path": $, "validation_path": $}}}
POST runs                {"config": {"name": $}, "notes": $}
POST runs                {"config": {"seed": $}}
POST runs                {"config": {"algorithm": {"steps": $}}}
POST runs                {"config": {"algorithm": {"learning_rate": $}}}
POST runs                {"config": {"drafter": {"spot": {"trigger": {"drift": $}}}}}
POST runs                {"config": {}, "needs": $, "start_after": $}
POST runs/QUEUED/clone   {"config": {"seed": $}}
POST runs/QUEUED/clone   {"config": {"a": $}}
"""
CURSORS = (
    *(b"[" * depth + b"]" * depth for depth in (1, 50, 1400)),
    rb'["\ud800"]',
    b'["-created", 1e999, "0123456789abcdef"]',
    b"[" + b"9" * 140 + b', "0123456789abcdef"]',
    b"[NaN, null]",
    b'{"a": 1}',
    rb'["name", "\u0000\ud800", "0123456789abcdef"]',
    b"\xff\xfe",
)
SEGMENTS = ("%00", "%ed%a0%80", "x" * 5000, "..%2f..%2fetc", "9" * 500)
PARAMETERS = ("%00", "9" * 5000, "2147483648", "1e999")
HEADERS = (
    "authorization",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "if-range",
    "last-event-id",
    "origin",
    "range",
    "x-request-id",
    "x-sha256",
)
OF_UPLOADS = ("content-length", "content-type", "x-sha256")
GIVEN = (b"", b"\xff" * 9, b"\x00", b"9" * 5000, "٣".encode(), b"bytes=9-1", b"bytes=-" + b"9" * 400, b"Bearer lt_", b"[::1", b'"', b"*")


@pytest.fixture
def admin(settings: Settings, new_token: NewToken) -> TestClient:
    """Who is not slowed down."""
    app = create_app(settings.model_copy(update={"requests_per_second": 1e6, "failed_logins_per_minute": 1e6, "tokens_per_user": 10_000}))
    authorised = {"Authorization": f"Bearer {new_token('admin')}"}
    return TestClient(app, base_url="http://localhost", headers=authorised, raise_server_exceptions=False)


def sound(reply: Response, *about: object) -> None:
    assert reply.status_code < 500, (about, reply.status_code, reply.text[:500])
    if "json" in reply.headers.get("content-type", ""):
        json.loads(reply.text, parse_constant=lambda name: pytest.fail(f"{about}: {name} is no JSON"))


def routes(api: TestClient) -> dict[str, dict[str, Any]]:
    """What GET can be asked, without streams that do not end."""
    app = api.app
    assert isinstance(app, FastAPI)
    return {path: methods["get"] for path, methods in app.openapi()["paths"].items() if "get" in methods and path != "/readyz"}


def tracked(api: TestClient) -> str:
    run_id: str = api.post("/api/v1/runs/tracked", json={"name": "mine"}).json()["id"]
    return run_id


def send(api: TestClient, run_id: str, line: str, value: bytes) -> Response:
    method, path, template = line.split(maxsplit=2)
    known = {"QUEUED": run_id, "TRACKED": tracked(api) if "TRACKED" in path else ""}
    address = "/".join(["/api/v1", *(known.get(part, part) for part in path.split("/"))])
    return api.request(method, address, content=template.encode().replace(b"$", value), headers={"content-type": "application/json"})


@pytest.mark.parametrize("line", PLACES.strip().splitlines())
def test_what_nothing_can_hold_is_refused(admin: TestClient, run_id: str, line: str) -> None:
    for kind, value in UNSTORABLE.items():
        reply = send(admin, run_id, line, value)
        sound(reply, kind)
        assert reply.status_code in (400, 422), (kind, reply.text)


def test_bodies(admin: TestClient, run_id: str) -> None:
    for kind, value in ODD.items():
        for line in BODIES.strip().splitlines():
            sound(send(admin, run_id, line, value), kind, line)
    for path in ("runs", "export/runs", "export/runs?format=jsonl", "audit", "queue", f"runs/{run_id}"):
        sound(admin.get(f"/api/v1/{path}"), path)


def test_cursors(admin: TestClient) -> None:
    for path, route in routes(admin).items():
        if any(parameter["name"] == "cursor" for parameter in route.get("parameters", ())):
            for text in CURSORS:
                for sort in ("", "&sort=name", "&sort=summary.a") if path == "/api/v1/runs" else ("",):
                    reply = admin.get(f"{path}?cursor={base64.urlsafe_b64encode(text).decode()}{sort}")
                    sound(reply, path, text)
                    assert reply.status_code in (404, 422), (path, text)


def test_paths_and_parameters(admin: TestClient) -> None:
    run_id = tracked(admin)
    for path, route in routes(admin).items():
        sent = [path.replace(place, segment) for place in re.findall(r"\{\w+\}", path) for segment in SEGMENTS]
        there = path.replace("{run_id}", run_id)
        names = [parameter["name"] for parameter in route.get("parameters", ()) if parameter["in"] == "query"]
        sent += [f"{there}?{name}={value}" for name in names for value in PARAMETERS if not there.endswith("/events")]
        for url in sent:
            sound(admin.get(url), url[:200])


def test_headers(admin: TestClient) -> None:
    run_id = tracked(admin)
    for name in HEADERS:
        for value in GIVEN:
            headers: Any = {name.encode(): value}
            sound(admin.get(f"/api/v1/runs/{run_id}", headers=headers), name, value[:50])
            if name in OF_UPLOADS:
                sound(admin.post(f"/api/v1/runs/{run_id}/artifacts?name=a.txt", content=b"a", headers=headers), name, value[:50])


def test_what_can_be_kept_is_no_fault() -> None:
    assert [fault(value) for value in ("", "\U0001f600", "a\0b", None, True, -1, 1e300, 2**64, {"a": [{}, [], {"b": 0.5}]})] == [""] * 9
    nested: Any = "x"
    for _ in range(LEVELS - 1):
        nested = [nested]
    assert not fault(nested)
    assert "nested" in fault([nested])
