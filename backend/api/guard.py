"""Turns away what a browser may be tricked into sending: foreign hosts (DNS rebinding), foreign origins, huge bodies."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.problems import problem
from backend.settings import Settings

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = LOCAL_HOSTS | {host.lower() for host in settings.allowed_hosts}
        self._max_body = settings.max_body_bytes
        self._too_large = f"the body exceeds {self._max_body} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["method"], headers)
        if refusal is not None:
            await problem(*refusal)(scope, receive, send)
            return
        await self._app(scope, self._bounded(receive), send)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if _host(f"//{headers.get('host', '')}") not in self._hosts:
            return 400, "the Host header names a host that this server does not answer for (LONGTAIL_ALLOWED_HOSTS)"
        if method not in SAFE_METHODS and "origin" in headers and not headers["origin"].endswith(f"://{headers['host']}"):
            return 403, "requests from pages of another origin are refused"
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return 400, "Content-Length is not a number"
        return (413, self._too_large) if int(length) > self._max_body else None

    def _bounded(self, receive: Receive) -> Receive:
        """``receive`` for bodies that do not announce their length."""
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_body:
                raise HTTPException(413, self._too_large)
            return message

        return bounded


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
