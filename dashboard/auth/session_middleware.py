"""Nobody sees a page, nor reaches Streamlit behind it, without a session of the API; whoever has none is sent to /login."""

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.auth.api_client import UNAUTHORIZED, client_of_session, cookie_name
from longtail import ApiError

OPEN_PATHS = frozenset({"/login", "/enter", "/_stcore/health", "/_stcore/host-config"})
OPEN_FOLDERS = ("/static/",)
HEADERS: Mapping[str, str] = {
    "content-security-policy": "frame-ancestors 'self'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}


class SessionMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _is_open(scope["path"]) or await run_in_threadpool(has_session, HTTPConnection(scope)):
            await self._app(scope, receive, _with_headers(send) if scope["type"] == "http" else send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif "text/html" in HTTPConnection(scope).headers.get("accept", ""):
            asked = scope["path"] + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
            await RedirectResponse(f"/login?{urlencode({'next': asked})}", 303)(scope, receive, send)
        else:
            await PlainTextResponse("not logged in", UNAUTHORIZED)(scope, receive, send)


def has_session(connection: HTTPConnection) -> bool:
    """Whether the API knows the session in the cookie; while the API is away there is nothing to see, so anyone with a cookie may wait."""
    session = connection.cookies.get(cookie_name())
    if not session:
        return False
    try:
        client_of_session(session).me()
    except ApiError as error:
        return error.status != UNAUTHORIZED
    return True


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or (path.startswith(OPEN_FOLDERS) and ".." not in path)


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                given.setdefault(name, value)
        await send(message)

    return with_headers
