import socket
import threading
import time
from typing import Self

import uvicorn

from backend.api import create_app
from backend.api.header_timeout import HeaderTimeoutProtocol
from backend.settings import Settings


class Running:
    """A real server that can be stopped, and started again at the same address."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(create_app(self._settings), log_level="warning", http=HeaderTimeoutProtocol, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
