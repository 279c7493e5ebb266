"""The door before Streamlit, without an API behind it."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from dashboard.auth.api_client import client_of_session, cookie_name
from dashboard.auth.login import ROUTES
from dashboard.auth.session_middleware import SessionMiddleware

DASHBOARD = Path(__file__).parents[4] / "dashboard"


async def socket(connection: WebSocket) -> None:
    await connection.accept()
    await connection.close()


@pytest.fixture
def visitor(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("LONGTAIL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LONGTAIL_TOKEN", "the machine's own")
    client_of_session.cache_clear()
    pages = [Route("/{path:path}", lambda _: PlainTextResponse("inside")), WebSocketRoute("/_stcore/stream", socket)]
    app = Starlette(routes=[*ROUTES, *pages], middleware=[Middleware(SessionMiddleware)])
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/new", "/run?id=1&x=%2F", "/_stcore/upload_file/1/2", "/media/x", "/static/../media/x", "/loginx"])
def test_without_a_session_there_is_only_the_way_to_the_login(visitor: TestClient, path: str) -> None:
    assert visitor.get(path).status_code == 401
    reply = visitor.get(path, headers={"accept": "text/html"})
    assert reply.status_code == 303
    assert reply.headers["location"].startswith("/login?next=%2F")
    with pytest.raises(WebSocketDisconnect), visitor.websocket_connect("/_stcore/stream"):
        pytest.fail("let in")


@pytest.mark.parametrize("path", ["/login", "/_stcore/health", "/static/js/index.js"])
def test_what_the_login_needs_is_open(visitor: TestClient, path: str) -> None:
    reply = visitor.get(path)
    assert reply.status_code == 200
    assert (reply.headers["x-frame-options"], reply.headers["x-content-type-options"]) == ("SAMEORIGIN", "nosniff")


def test_while_the_api_is_away_who_has_a_session_may_wait(visitor: TestClient) -> None:
    visitor.cookies.set(cookie_name(), "lt_something")
    assert visitor.get("/new").text == "inside"
    with visitor.websocket_connect("/_stcore/stream"):
        pass


def test_nobody_comes_in_by_the_machine_s_own_token() -> None:
    assert client_of_session("").token == ""


@pytest.mark.parametrize("after", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\nx", ""])
def test_a_login_leads_nowhere_else(visitor: TestClient, after: str) -> None:
    assert 'name="next" value="/"' in visitor.get("/login", params={"next": after}).text


def test_the_login_page_shows_text_as_text(visitor: TestClient) -> None:
    text = visitor.get("/login", params={"next": '/"><script>alert(1)</script>', "news": "<b>"}).text
    assert "<script" not in text
    assert "<b>" not in text


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403), ({"origin": "http://localhost"}, 503), ({}, 503)],
)
def test_the_form_is_ours(visitor: TestClient, headers: dict[str, str], status: int) -> None:
    reply = visitor.post("/login", data={"user": "ada", "secret": "x", "next": "/"}, headers=headers)
    assert reply.status_code == status, "503: it goes on to the API, which is away"
    assert "set-cookie" not in reply.headers


def test_no_page_shows_foreign_markup() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in DASHBOARD.rglob("*.py")}
    unsafe = ("unsafe_allow_html", "unsafe_allow_javascript", ".html(", "components.v1", "components.html")
    assert texts
    found = {(str(path.relative_to(DASHBOARD)), word) for path, text in texts.items() for word in unsafe if word in text}
    ours = {("app.py", ".html("), ("widgets/cell_labels.py", ".html(")}  # style sheets
    escaped = {  # test_response_html.py, test_cards.py, test_chart_legend.py
        ("views/run/tabs/samples.py", ".html("),
        ("views/runs/page.py", ".html("),
        ("widgets/cards.py", ".html("),
        ("widgets/panel.py", ".html("),
    }
    scripts = {  # assets/open_by_enter.js, assets/one_click_a_station.js
        ("views/runs/page.py", "unsafe_allow_javascript"),
        ("views/help/tour.py", "unsafe_allow_javascript"),
        ("views/help/tour.py", ".html("),
    }
    assert found == ours | escaped | scripts
