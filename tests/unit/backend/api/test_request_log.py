"""Every request has an id, a line in the log and a place in the latencies."""

import logging
import math

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Scope

from backend.api.middleware import request_log
from backend.api.middleware.request_log import template

RUN = "/api/v1/runs/0123456789abcdef"


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "backend.api.middleware.request_log"]


def test_an_id_comes_back_and_a_bad_one_is_replaced(api: TestClient) -> None:
    assert api.get("/healthz", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    for bad in ("", "a b", "x" * 65, "a\u00fc"):
        made = api.get("/healthz", headers={"x-request-id": bad.encode()}).headers["x-request-id"]  # type: ignore[arg-type]
        assert len(made) == 16
    refused = api.get("/nowhere", headers={"authorization": "", "host": "evil.example"})
    assert (refused.status_code, len(refused.headers["x-request-id"])) == (400, 16)


def test_a_write_is_told_with_who_and_where(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        api.post(f"{RUN}/cancel?link=secret", headers={"x-request-id": "abc"})
    (record,) = told(caplog)
    facts = vars(record)
    assert facts["duration"] > 0
    expected = {"method": "POST", "route": "/api/v1/runs/{run_id}/cancel", "path": f"{RUN}/cancel", "status": 404, "user": "editor"}
    assert {name: facts[name] for name in expected} == expected
    assert "secret" not in str(facts)


@pytest.mark.parametrize(("slow", "level"), [(math.inf, "DEBUG"), (0.0, "INFO")])
def test_reads_that_succeed_at_once_are_for_the_debug_level(
    api: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, slow: float, level: str
) -> None:
    monkeypatch.setattr(request_log, "SLOW_SECONDS", slow)
    with caplog.at_level(logging.DEBUG):
        api.get("/api/v1/runs")
        api.get(RUN)
    assert [(record.levelname, vars(record)["status"]) for record in told(caplog)] == [(level, 200), ("INFO", 404)]


def test_a_fault_of_the_server_is_found_by_its_id(api: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(api.app, FastAPI)
    api.app.add_api_route("/broken", lambda: 1 / 0)
    with caplog.at_level(logging.INFO):
        reply = api.get("/broken", headers={"x-request-id": "abc"})
    assert (reply.status_code, reply.headers["x-request-id"]) == (500, "abc")
    assert vars(told(caplog)[0])["status"] == 500


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1/runs"])
def test_whoever_is_not_let_in_reaches_no_route(anonymous: TestClient, caplog: pytest.LogCaptureFixture, path: str) -> None:
    with caplog.at_level(logging.INFO):
        anonymous.request("BREW", path)
    facts = vars(told(caplog)[0])
    assert (facts["method"], facts["route"], facts["status"], facts["user"]) == ("other", "none", 401, None)


def test_a_route_is_named_by_its_template(api: TestClient) -> None:
    """Also where an id looks like a part of the path."""
    assert isinstance(api.app, FastAPI)
    seen: list[str] = []
    inner = api.app

    async def watch(scope: Scope, receive: object, send: object) -> None:
        await inner(scope, receive, send)  # type: ignore[arg-type]
        seen.append(template(scope))

    paths = ("/healthz", "/api/v1/runs", "/api/v1/runs/runs", "/api/v1/runs/api/metrics")
    client = TestClient(watch, base_url="http://localhost", headers=dict(api.headers))
    for path in paths:
        client.get(path)
    assert seen == ["/healthz", "/api/v1/runs", "/api/v1/runs/{run_id}", "/api/v1/runs/{run_id}/metrics"]
