"""HEAD is what GET answers, without its body."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Outside of everything that goes by the method, so that HEAD needs the rights of GET. The server's own scope goes on saying HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        streams = asyncio.Event()

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
            elif message.get("more_body"):
                streams.set()

        asked = {**scope, "method": "GET"}
        app, streaming = asyncio.ensure_future(self._app(asked, receive, without_body)), asyncio.ensure_future(streams.wait())
        try:
            await asyncio.wait({app, streaming}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            streaming.cancel()
            app.cancel()  # a stream or a download would go on for nobody
            scope.update({**asked, **scope})  # the log tells of the route
        with suppress(asyncio.CancelledError):
            await app
