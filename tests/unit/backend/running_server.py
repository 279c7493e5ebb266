import socket
import threading
import time
from typing import Any, Self

from backend.api import create_app
from backend.api.server import ApiServer
from backend.settings import Settings

OPTIONS: dict[str, Any] = {"host": "127.0.0.1", "log_level": "warning", "timeout_graceful_shutdown": 1}


class Running:
    """A real server that can be stopped, and started again at the same address."""

    def __init__(self, settings: Settings, **options: Any) -> None:
        self._settings, self._options = settings, OPTIONS | options
        self._held = self._bound(0)  # without listening: while the server is stopped, the system gives its port to nobody else
        self._port = int(self._held.getsockname()[1])
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def connections_in_use(self) -> int:
        """To the database, by those who read."""
        in_use: int = self._app.state.database.reader.pool.checkedout()
        return in_use

    def _bound(self, port: int) -> socket.socket:
        host = str(self._options["host"])
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        return bound

    def start(self) -> None:
        listener = self._bound(self._port)
        self._app = create_app(self._settings)
        self._server = ApiServer(self._app, self._settings, **self._options)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        while not self._server.announced:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._held.close()
