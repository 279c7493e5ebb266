"""Fifty browsers on one page, without their windows: ``python -m backend.bench.visitors DASHBOARD COOKIE PAGE QUERY COUNT SECONDS``.

Each holds the connection that Streamlit's page holds, and asks for what is to be drawn anew as often as the page says. Prints how often
they have been answered in all.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

if TYPE_CHECKING:
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

APART_SECONDS = 0.2


@dataclass
class Visit:
    """``hash`` names the page, as the server told; ``rerun`` are the parts to ask for, and every how many seconds."""

    page: str
    query: str
    hash: str = ""
    rerun: dict[str, float] = field(default_factory=dict)
    answers: int = 0

    async def follow(self, address: str, cookie: str) -> None:
        sent: dict[str, Any] = {"additional_headers": {"Cookie": cookie}, "subprotocols": [Subprotocol("streamlit")]}
        async with connect(address, **sent, max_size=None, proxy=None, open_timeout=None) as connection, asyncio.TaskGroup() as timers:
            await self._ask(connection)
            async for message in connection:
                if isinstance(message, bytes):
                    self._read(message, connection, timers)

    def _read(self, message: bytes, connection: ClientConnection, timers: asyncio.TaskGroup) -> None:
        told = _parsed(message)
        kind = told.WhichOneof("type")
        if kind == "new_session":
            self.hash = told.new_session.page_script_hash
        elif kind == "script_finished":
            self.answers += 1
        elif kind == "auto_rerun" and told.auto_rerun.fragment_id not in self.rerun:
            self.rerun[told.auto_rerun.fragment_id] = told.auto_rerun.interval
            timers.create_task(self._again(connection, told.auto_rerun.fragment_id))

    async def _again(self, connection: ClientConnection, fragment: str) -> None:
        while True:
            await asyncio.sleep(self.rerun[fragment])
            await self._ask(connection, fragment)

    async def _ask(self, connection: ClientConnection, fragment: str = "") -> None:
        from streamlit.proto.BackMsg_pb2 import BackMsg

        message = BackMsg()
        message.rerun_script.query_string = self.query
        message.rerun_script.page_name = "" if self.hash else self.page
        message.rerun_script.page_script_hash = self.hash
        message.rerun_script.fragment_id = fragment
        message.rerun_script.is_auto_rerun = bool(fragment)
        await connection.send(message.SerializeToString())


def _parsed(message: bytes) -> "ForwardMsg":
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    told = ForwardMsg()
    told.ParseFromString(message)
    return told


async def visited(dashboard: str, cookie: str, visits: list[Visit], seconds: float) -> None:
    address = dashboard.replace("http", "ws", 1) + "/_stcore/stream"
    async with asyncio.timeout(seconds), asyncio.TaskGroup() as browsers:
        for visit in visits:
            browsers.create_task(visit.follow(address, cookie))
            await asyncio.sleep(APART_SECONDS)


def main() -> None:
    dashboard, cookie, page, query, count, seconds = sys.argv[1:]
    visits = [Visit(page, query) for _ in range(int(count))]
    try:
        asyncio.run(visited(dashboard, cookie, visits, float(seconds)))
    except TimeoutError:
        print(json.dumps({"answers": sum(visit.answers for visit in visits), "silent": sum(not visit.rerun for visit in visits)}))


if __name__ == "__main__":
    main()
