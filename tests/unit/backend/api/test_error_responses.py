"""Every error has the one shape; what no browser page of ours would send is turned away."""

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from backend.api import create_app
from backend.api.middleware.host_origin_and_body_size import HEADERS
from backend.settings import Settings

RUN = "/api/v1/runs/0123456789abcdef"


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("GET", RUN, {}, 404),
        ("GET", "/api/v1/runs/not-an-id", {}, 404),
        ("GET", "/api/v1/runs/%00", {}, 404),
        ("GET", f"{RUN}/events", {}, 404),
        ("GET", f"{RUN}/metrics/keys", {}, 404),
        ("POST", "/api/v1/runs/tracked", {"json": {"name": ""}}, 422),
        ("POST", f"{RUN}/batches", {"json": {"id": "1"}}, 404),
        ("POST", f"{RUN}/finish", {"json": {"state": "running"}}, 404),
        ("GET", f"{RUN}/metrics", {}, 404),
        ("GET", f"{RUN}/artifacts", {}, 404),
        ("POST", f"{RUN}/cancel", {}, 404),
        ("GET", "/api/v1/artifacts/0123456789abcdef/download", {}, 404),
        ("GET", "/api/v1/compare?baseline=0123456789abcdef&run=0123456789abcdef", {}, 404),
        ("GET", "/api/v1/compare", {}, 422),
        ("DELETE", "/api/v1/runs", {}, 405),
        ("GET", "/api/v1/runs?limit=0", {}, 422),
        ("GET", "/api/v1/runs?limit=many", {}, 422),
        ("GET", "/api/v1/runs?state=dreaming", {}, 422),
        ("GET", "/api/v1/runs?cursor=AAAA", {}, 422),
        ("GET", "/api/v1/runs?sort=colour", {}, 422),
        ("GET", "/api/v1/runs?where=seed", {}, 422),
        ("GET", "/api/v1/runs?deleted=perhaps", {}, 422),
        ("GET", "/api/v1/glances?limit=101", {}, 422),
        ("GET", "/api/v1/runs?project=0123456789abcdef", {}, 404),
        ("PATCH", RUN, {"json": {"name": ""}}, 404),
        ("PATCH", RUN, {"json": {}}, 404),
        ("GET", "/api/v1/export/runs?format=xlsx", {}, 422),
        ("GET", "/api/v1/projects/0123456789abcdef", {}, 404),
        ("POST", "/api/v1/projects", {"json": {"name": "default"}}, 409),
        ("GET", "/api/v1/runs?cursor=%C3%BC", {}, 422),
        ("POST", "/api/v1/runs", {"content": b"{broken", "headers": {"content-type": "application/json"}}, 400),
        ("POST", "/api/v1/runs", {"content": b"text"}, 415),
        ("POST", "/api/v1/runs", {"json": []}, 422),
        ("POST", "/api/v1/runs", {"json": {}}, 422),
        ("POST", "/api/v1/runs", {"json": {"config": []}}, 422),
        ("POST", "/api/v1/runs", {"json": {"config": {}, "colour": 1}}, 422),
        ("POST", "/api/v1/runs", {"json": {"config": {}, "tags": ["x"] * 33}}, 422),
        ("POST", "/api/v1/runs", {"json": {"config": {}, "tags": ["\0"]}}, 422),
        ("GET", "/api/v1/runs?q=%00", {}, 422),
        ("POST", "/api/v1/runs/validate", {"json": {}}, 422),
        ("GET", "/healthz", {"headers": {"host": "evil.example"}}, 400),
        ("GET", "/healthz", {"headers": {"host": "localhost.evil.example"}}, 400),
        ("GET", "/healthz", {"headers": {"host": ""}}, 400),
        ("POST", f"{RUN}/cancel", {"headers": {"origin": "https://evil.example"}}, 403),
        ("POST", f"{RUN}/cancel", {"headers": {"origin": "http://localhost.evil.example"}}, 403),
        ("POST", f"{RUN}/cancel", {"headers": {"origin": "null"}}, 403),
        ("POST", "/api/v1/runs", {"content": b"x" * (2**20 + 1)}, 413),
        ("POST", "/api/v1/runs", {"content": [b"x" * 2**19] * 3}, 413),
        ("POST", "/api/v1/runs", {"headers": {"content-length": "many"}}, 400),
        ("GET", "/readyz", {}, 503),
    ],
)
def test_every_error_is_a_problem(api: TestClient, method: str, path: str, options: dict[str, Any], status: int) -> None:
    reply = api.request(method, path, **options)
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert set(body) == {"type", "title", "status", "detail", "errors"}
    assert body["status"] == status
    assert body["detail"]
    assert all(set(error) == {"field", "message"} for error in body["errors"])
    if status == 422:
        assert body["errors"]


def test_a_fault_of_the_server_is_a_problem_too(api: TestClient) -> None:
    app = api.app
    assert isinstance(app, FastAPI)
    app.add_api_route("/broken", lambda: 1 / 0)
    strict = TestClient(app, base_url="http://localhost", headers=dict(api.headers))  # raises what would have the server cut the connection
    for reply in (strict.get("/broken"), strict.head("/broken")):
        assert (reply.status_code, reply.headers["content-type"]) == (500, "application/problem+json")
        assert "division" not in reply.text, "details stay in the log"
        assert HEADERS.items() <= dict(reply.headers).items()
        assert reply.headers["x-request-id"] in strict.get("/broken", headers={"x-request-id": reply.headers["x-request-id"]}).text


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"])
def test_this_machine_is_answered(api: TestClient, host: str) -> None:
    assert api.get("/healthz", headers={"host": host}).json() == {"status": "ok"}


def test_an_own_page_may_post(api: TestClient) -> None:
    assert api.post(f"{RUN}/cancel", headers={"origin": "http://localhost"}).status_code == 404


def test_hosts_can_be_allowed(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path, allowed_hosts=("longtail.example",)))
    assert TestClient(app, base_url="http://longtail.example").get("/healthz").status_code == 200


@pytest.mark.usefixtures("bare_database")
def test_readiness_says_what_is_missing(settings: Settings) -> None:
    reply = TestClient(create_app(settings), base_url="http://localhost").get("/readyz")
    assert reply.json()["errors"][0]["field"] == "migrations"


def test_the_api_describes_itself(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) == 77
    for operation in operations:
        assert operation["summary"]
        for status, response in operation["responses"].items():
            kinds = list(response.get("content", {}))
            assert kinds == ["application/problem+json"] if int(status) >= 400 else "application/problem+json" not in kinds
    problem = {"$ref": "#/components/schemas/Problem"}
    cancel = document["paths"]["/api/v1/runs/{run_id}/cancel"]["post"]
    assert cancel["responses"]["409"]["content"]["application/problem+json"]["schema"] == problem
