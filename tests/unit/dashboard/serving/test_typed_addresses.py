"""Addresses typed by hand: of the application that the server runs, without an API behind it."""

import pytest
from starlette.testclient import TestClient

from dashboard.auth.api_client import client_of_session, cookie_name
from dashboard.server import app


@pytest.mark.parametrize(
    ("typed", "leads_to"), [("/runs", "/"), ("/runs/", "/"), ("/runs?tag=a%2Fb&tag=c&deleted=true", "/?tag=a%2Fb&tag=c&deleted=true")]
)
def test_the_list_of_runs_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch, typed: str, leads_to: str) -> None:
    monkeypatch.setenv("LONGTAIL_URL", "http://127.0.0.1:9")
    client_of_session.cache_clear()
    visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
    visitor.cookies.set(cookie_name(), "lt_something")
    reply = visitor.get(typed)
    assert (reply.status_code, reply.headers.get("location")) == (307, leads_to)
