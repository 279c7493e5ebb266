"""Turns away what a browser may be tricked into sending: foreign hosts (DNS rebinding), foreign origins; and huge or slow bodies."""

import asyncio
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.error_responses import problem
from backend.settings import Settings

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
UPLOAD = re.compile(r"/api/v1/runs/[^/]+/artifacts")
SLOWEST = 64 * 1024
"""Bytes a second; a body that comes more slowly than that is given up after a while."""
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class HostOriginAndBodySizeMiddleware:
    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = LOCAL_HOSTS | {host.lower() for host in settings.allowed_hosts}
        self._max_body, self._max_upload, self._body_seconds = settings.max_body_bytes, settings.max_artifact_bytes, settings.body_seconds
        self._too_slow = f"the body did not arrive in time: {self._body_seconds:g} s, and one for each {SLOWEST} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = self._max_upload if scope["method"] == "POST" and UPLOAD.fullmatch(scope["path"]) else self._max_body
        refusal = self._refusal(scope["method"], headers, most)
        if refusal is not None:
            await problem(*refusal)(scope, receive, _with_headers(send))
            return
        await self._app(scope, self._bounded(receive, most), _with_headers(send))

    def _refusal(self, method: str, headers: Headers, most: int) -> tuple[int, str] | None:
        if _host(f"//{headers.get('host', '')}") not in self._hosts:
            return 400, "the Host header names a host that this server does not answer for (LONGTAIL_ALLOWED_HOSTS)"
        if method not in SAFE_METHODS and "origin" in headers and not headers["origin"].endswith(f"://{headers['host']}"):
            return 403, "requests from pages of another origin are refused"
        length = headers.get("content-length", "0")
        if re.fullmatch("[0-9]{1,20}", length) is None:
            return 400, "Content-Length is no number of bytes"
        return (413, _too_large(most)) if int(length) > most else None

    def _bounded(self, receive: Receive, most: int) -> Receive:
        """``receive`` for bodies that do not announce their length, or never end."""
        received, deadline, complete = 0, asyncio.get_running_loop().time() + self._body_seconds, False

        async def bounded() -> Message:
            nonlocal received, complete
            try:
                async with asyncio.timeout_at(None if complete else deadline + received / SLOWEST):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, self._too_slow) from None
            complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > most:
                raise HTTPException(413, _too_large(most))
            return message

        return bounded


def _too_large(most: int) -> str:
    return f"the body exceeds {most} bytes"


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                given.setdefault(name, value)
        await send(message)

    return with_headers


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
