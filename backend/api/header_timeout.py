"""uvicorn's HTTP protocol with a deadline for headers, and with room for the next client: who dribbles, or only connects, must not hold a
connection that others need."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0


class HeaderTimeoutProtocol(H11Protocol):
    header_seconds = HEADER_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _heard = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._heard = self.loop.time()
        self._make_room()
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        self._heard = self.loop.time()
        super().data_received(data)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _make_room(self) -> None:
        """uvicorn refuses every request while there are too many connections. So the one that waits for its client goes first, and of those
        the one that has been silent for longest."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        waiting = [each for each in self.connections if isinstance(each, HeaderTimeoutProtocol) and each is not self and each.is_waiting]
        if waiting:
            longest = min(waiting, key=lambda each: each._heard)
            self.connections.discard(longest)
            longest.transport.abort()

    @property
    def is_waiting(self) -> bool:
        """For the client: for a request, or for the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _expect_headers(self) -> None:
        """From a request's first byte (or the connection) on. Between requests uvicorn's keep-alive timeout watches."""
        waiting = self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        if not waiting:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
