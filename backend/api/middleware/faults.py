"""A fault of the server is answered like any other error: with the headers that every answer has, on a connection that goes on."""

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.api.error_responses import problem

logger = logging.getLogger(__name__)


class FaultsMiddleware:
    """Inside of what sets headers. Starlette's own handler is outside of everything, and has the server cut the connection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            if begun:  # what is half sent can only be cut off
                raise
            logger.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            detail = f"the server made a mistake; its log says more (request {scope['state']['request_id']})"
            await problem(500, detail)(scope, receive, send)
