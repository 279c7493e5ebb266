"""Deny by default: every route and mount, every role."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from new_token import NewToken
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from backend.services.projects.membership_check import PROJECT_OF

OPEN = {"GET /healthz", "GET /readyz", "POST /api/v1/sessions"}
VIEWER = {
    "GET /api/v1/schema",
    "GET /api/v1/presets",
    "GET /api/v1/models",
    "GET /metrics",
    "GET /api/v1/runs",
    "GET /api/v1/runs/totals",
    "GET /api/v1/runs/{run_id}",
    "GET /api/v1/runs/{run_id}/statistics",
    "GET /api/v1/runs/{run_id}/metrics",
    "GET /api/v1/runs/{run_id}/metrics/keys",
    "GET /api/v1/runs/{run_id}/events",
    "GET /api/v1/runs/{run_id}/lengths",
    "GET /api/v1/runs/{run_id}/spans",
    "GET /api/v1/runs/{run_id}/decoding",
    "GET /api/v1/runs/{run_id}/speculation",
    "GET /api/v1/runs/{run_id}/drafters",
    "GET /api/v1/runs/{run_id}/pretraining",
    "GET /api/v1/runs/{run_id}/samples",
    "GET /api/v1/runs/{run_id}/logs",
    "GET /api/v1/runs/{run_id}/artifacts",
    "GET /api/v1/artifacts",
    "GET /api/v1/artifacts/{artifact_id}",
    "GET /api/v1/artifacts/{artifact_id}/download",
    "GET /api/v1/compare",
    "POST /api/v1/plans",
    "GET /api/v1/plans/gpus",
    "GET /api/v1/glances",
    "GET /api/v1/workers",
    "GET /api/v1/queue",
    "GET /api/v1/runs/{run_id}/attempts",
    "GET /api/v1/export/runs",
    "GET /api/v1/export/metrics",
    "GET /api/v1/projects",
    "GET /api/v1/projects/{project_id}",
    "GET /api/v1/projects/{project_id}/members",
    "DELETE /api/v1/sessions/current",
    "POST /api/v1/tickets",
    "GET /api/v1/me",
    "GET /api/v1/me/link-key",
    "PUT /api/v1/me/password",
    "GET /api/v1/preferences",
    "PUT /api/v1/preferences/{name}",
    "GET /api/v1/tokens",
    "POST /api/v1/tokens",
    "DELETE /api/v1/tokens/{token_id}",
}
EDITOR = {
    "POST /api/v1/runs/tracked",
    "POST /api/v1/runs/{run_id}/batches",
    "POST /api/v1/runs/{run_id}/finish",
    "POST /api/v1/runs",
    "POST /api/v1/runs/validate",
    "PATCH /api/v1/runs/{run_id}",
    "DELETE /api/v1/runs/{run_id}",
    "POST /api/v1/projects",
    "PATCH /api/v1/projects/{project_id}",
    "PUT /api/v1/projects/{project_id}/members/{user_name}",
    "DELETE /api/v1/projects/{project_id}/members/{user_name}",
    "POST /api/v1/runs/{run_id}/artifacts",
    "DELETE /api/v1/artifacts/{artifact_id}",
    *(f"POST /api/v1/runs/{{run_id}}/{action}" for action in ("cancel", "pause", "resume", "retry", "clone", "restore")),
}
ADMIN = {
    "GET /api/v1/users",
    "POST /api/v1/users",
    "PATCH /api/v1/users/{user_id}",
    "POST /api/v1/users/{user_id}/tokens",
    "GET /api/v1/audit",
    "GET /api/v1/webhooks",
    "POST /api/v1/webhooks",
    "DELETE /api/v1/webhooks/{webhook_id}",
    "POST /api/v1/webhooks/{webhook_id}/test",
    "GET /api/v1/webhooks/{webhook_id}/deliveries",
}
ALLOWED = {"viewer": VIEWER, "editor": VIEWER | EDITOR, "admin": VIEWER | EDITOR | ADMIN}


def operations(app: FastAPI) -> set[str]:
    return {f"{method.upper()} {path}" for path, methods in app.openapi()["paths"].items() for method in methods}


def leaves(routes: list[Any]) -> Iterator[Any]:
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from leaves(inner.routes) if inner is not None else [route]


def ask(client: TestClient, operation: str, token: str = "") -> int:
    method, template = operation.split()
    path = "/".join("0" * 16 if part.startswith("{") else part for part in template.split("/"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return client.request(method, path, headers=headers, json={} if method in ("POST", "PUT", "PATCH") else None).status_code


@pytest.fixture
def app(anonymous: TestClient) -> FastAPI:
    assert isinstance(anonymous.app, FastAPI)
    return anonymous.app


def test_every_route_has_its_place_in_the_matrix(app: FastAPI) -> None:
    assert operations(app) == OPEN | ALLOWED["admin"]


def test_no_route_hides_from_the_document(app: FastAPI) -> None:
    found = list(leaves(app.routes))
    assert not [route for route in found if isinstance(route, Mount | WebSocketRoute)]
    assert len(found) == len(operations(app)) + 1, "the document itself is one more"
    names = [route.name for route in found]
    assert len(set(names)) == len(names), "roles go by name"


def test_whatever_a_path_names_is_known(app: FastAPI) -> None:
    """A parameter that names something of a run has to be in PROJECT_OF, or its project would not be asked about."""
    named = {name for path in app.openapi()["paths"] for name in re.findall(r"\{(\w+)\}", path)}
    assert named == set(PROJECT_OF) | {"token_id", "user_id", "user_name", "webhook_id", "name"}


def test_nobody_gets_anywhere(anonymous: TestClient, app: FastAPI) -> None:
    asked = operations(app) | {
        "GET /openapi.json",
        "GET /nowhere",
        "GET /docs",
        "DELETE /api/v1/runs",
        "GET /api/v1/sessions",
        "TRACE /healthz",
    }
    assert {operation for operation in asked if ask(anonymous, operation) != 401} == OPEN


@pytest.mark.parametrize(
    "path", ["/api/v1/runs/", "//api/v1/runs", "/healthz/", "/healthz/../api/v1/runs", "/healthz%2f..%2fapi/v1/runs", "/%68ealthz/"]
)
def test_no_spelling_of_a_path_opens_it(anonymous: TestClient, path: str) -> None:
    assert anonymous.get(path, follow_redirects=False).status_code == 401


@pytest.mark.parametrize("role", list(ALLOWED))
def test_the_matrix_of_roles(anonymous: TestClient, app: FastAPI, new_token: NewToken, role: str) -> None:
    tokens = {operation: new_token(role, f"user-{number}") for number, operation in enumerate(sorted(operations(app) - OPEN))}
    replies = {operation: ask(anonymous, operation, token) for operation, token in tokens.items()}
    assert 401 not in replies.values()
    assert {operation for operation, status in replies.items() if status != 403} == ALLOWED[role]


def test_what_is_added_later_is_closed_too(anonymous: TestClient, app: FastAPI, new_token: NewToken) -> None:
    app.mount("/files", PlainTextResponse("secret"))
    app.router.routes.append(Route("/figures", lambda _: PlainTextResponse("secret")))
    app.add_api_route("/hidden", lambda: "secret", methods=["POST"], include_in_schema=False)
    for operation in ("GET /files/x", "GET /figures", "POST /hidden"):
        assert ask(anonymous, operation) == 401
    assert ask(anonymous, "POST /hidden", new_token("viewer")) == 403
    with pytest.raises(WebSocketDisconnect), anonymous.websocket_connect("/files/x"):
        pytest.fail("a websocket")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic {}", "Bearer x{}", "Bearer {}x", "{}", "Bearer lt_0000000000000000_" + "A" * 43]
)
def test_only_a_bearer_token_is_one(anonymous: TestClient, new_token: NewToken, header: str) -> None:
    token = new_token("admin")
    assert anonymous.get("/api/v1/me", headers={"Authorization": f"bearer {token}"}).status_code == 200
    reply = anonymous.get("/api/v1/me", headers={"Authorization": header.format(token)})
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    anonymous.cookies.set("longtail-session-8501", token)
    assert anonymous.get("/api/v1/me").status_code == 401, "no cookie opens the API"


def test_a_scope_narrows_and_never_widens(anonymous: TestClient, new_token: NewToken) -> None:
    narrow, wide = new_token("admin", scope="viewer"), new_token("viewer", scope="admin")
    assert ask(anonymous, "GET /api/v1/users", narrow) == ask(anonymous, "GET /api/v1/users", wide) == 403
    assert ask(anonymous, "POST /api/v1/tokens", narrow) == 403, "else it would make itself a wider one"
    assert ask(anonymous, "PUT /api/v1/me/password", narrow) == 403


def test_every_answer_carries_the_security_headers(anonymous: TestClient, new_token: NewToken) -> None:
    for reply in (anonymous.get("/nowhere"), anonymous.get("/api/v1/me", headers={"Authorization": f"Bearer {new_token('viewer')}"})):
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
