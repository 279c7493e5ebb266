"""Every request has an id, in the answer and in every line that is logged meanwhile; its latency is counted, and the log tells of it."""

import logging
import re
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend import logs
from backend.models import new_id
from backend.services.health.prometheus import PrometheusMetrics

HEADER = "x-request-id"
GOOD_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SLOW_SECONDS = 1.0
MOST_PATH = 200
FREQUENT = "/api/v1/runs/{run_id}/batches"

logger = logging.getLogger(__name__)


class RequestLogMiddleware:
    def __init__(self, app: ASGIApp, prometheus: PrometheusMetrics) -> None:
        self._app, self._prometheus = app, prometheus

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if GOOD_ID.fullmatch(given) else new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        logs.bind(request_id=request_id)  # each request is a task of its own
        began, status, latency = time.perf_counter(), 500, None

        async def noted(message: Message) -> None:
            nonlocal status, latency
            if message["type"] == "http.response.start":
                status, latency = message["status"], time.perf_counter() - began
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            duration = time.perf_counter() - began
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._prometheus.latency.labels(method, template(scope), str(status)).observe(duration if latency is None else latency)
            _log(scope, method, status, duration)


def template(scope: Scope) -> str:
    """Such as /api/v1/runs/{run_id}; "none" where no route was reached. A route knows its own end only, not what it was included under."""
    route = scope.get("route")
    if route is None:
        return "none"
    own: str = route.path_format
    return "/".join(scope["path"].split("/")[: -own.count("/")]) + own


def _log(scope: Scope, method: str, status: int, duration: float) -> None:
    """Reads, and points of tracked runs, that succeed at once are for the debug level: there are several a second."""
    identity = scope["state"].get("identity")
    facts = {"method": method, "route": template(scope), "path": scope["path"][:MOST_PATH], "status": status}
    facts |= {"duration": round(duration, 4), "user": identity.user_name if identity else None}
    dull = (method in ("GET", "HEAD") or facts["route"] == FREQUENT) and status < 400 and duration < SLOW_SECONDS
    logger.log(logging.DEBUG if dull else logging.INFO, "%s %s: %d", method, facts["route"], status, extra=facts)
