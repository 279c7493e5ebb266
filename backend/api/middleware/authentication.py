"""Nobody gets past without a valid token: not to a route, not to a mount, not to a 404. Only what authorization.is_public names is free."""

import time
from contextlib import suppress
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from backend.api.authorization import is_public
from backend.api.error_responses import refusal
from backend.api.rate_limits import RateLimit
from backend.database import NO_ANSWER, Database
from backend.errors import RequestError, TooManyRequestsError, UnauthorizedError
from backend.services.identity import tokens
from backend.services.identity.server_secret import server_secret
from backend.services.identity.tokens import Identity
from backend.settings import Settings

NOTE_USE_SECONDS = 60.0
USER_FACTOR = 2


class AuthenticationMiddleware:
    def __init__(self, app: ASGIApp, database: Database, settings: Settings) -> None:
        self._app, self._database, self._settings = app, database, settings
        rate = settings.requests_per_second
        self._tokens, self._users = RateLimit(rate, 2 * rate), RateLimit(USER_FACTOR * rate, 2 * USER_FACTOR * rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http" or is_public(scope, self._settings):
            await self._app(scope, receive, send)
            return
        try:
            identity = await run_in_threadpool(self._admit, scope)
        except RequestError as error:
            await refusal(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["identity"] = identity
        await self._app(scope, receive, send)
        if (identity.last_used_at or 0) < time.time() - NOTE_USE_SECONDS:
            await run_in_threadpool(self._note_use, identity)

    def _admit(self, scope: Scope) -> Identity:
        identity = self._identify(scope)
        if identity is None:
            raise UnauthorizedError("this needs a valid token, sent as Authorization: Bearer TOKEN")
        if seconds := self._tokens.take(identity.token_id):
            raise TooManyRequestsError("this token makes too many requests", seconds)
        if seconds := self._users.take(identity.user_id):
            raise TooManyRequestsError(f"the tokens of {identity.user_name} make too many requests together", seconds)
        return identity

    def _identify(self, scope: Scope) -> Identity | None:
        kind, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
        link = parse_qs(scope["query_string"].decode("latin-1")).get("link") if scope["method"] == "GET" and not kind else None
        with self._database.read() as session:
            if link:
                return tokens.identify_link(session, link[0], scope["path"], server_secret(self._settings))
            return tokens.identify(session, text.strip()) if kind.lower() == "bearer" else None

    def _note_use(self, identity: Identity) -> None:
        with suppress(*NO_ANSWER), self._database.write() as session:  # a busy database has better things to do
            tokens.note_use(session, identity.token_id)
