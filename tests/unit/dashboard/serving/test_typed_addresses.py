"""Addresses typed by hand lead to a page, with all that they hold. That the dashboard has them, a test of page switches shows."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard.serving.typed_addresses import ROUTES


@pytest.mark.parametrize(
    ("typed", "leads_to"),
    [
        ("/runs", "/"),
        ("/runs/", "/"),
        ("/runs?tag=a%2Fb&tag=c&deleted=true", "/?tag=a%2Fb&tag=c&deleted=true"),
        ("/run/0123456789abcdef", "/run?id=0123456789abcdef"),
        ("/run/0123456789abcdef?tab=Metrics&id=other", "/run?id=0123456789abcdef&tab=Metrics"),
        ("/run/a%26b%3F%0d", "/run?id=a%26b%3F%0D"),
    ],
)
def test_what_is_typed_leads_to_its_page(typed: str, leads_to: str) -> None:
    pages = Route("/{path:path}", lambda _: PlainTextResponse("a page"))
    visitor = TestClient(Starlette(routes=[*ROUTES, pages]), base_url="http://localhost", follow_redirects=False)
    reply = visitor.get(typed)
    assert (reply.status_code, reply.headers.get("location")) == (307, leads_to)
