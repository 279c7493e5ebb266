"""The HTTP server under the API: what it allows its clients, whose word it takes about them, and how clients on this machine find it."""

import os
import resource
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from backend.api.header_timeout import HeaderTimeoutProtocol
from backend.settings import Settings
from backend.stack.home_folder import announce_api, withdraw_api

KEEP_ALIVE_SECONDS = 10
CONNECTIONS = 1000
OPEN_FILES = 16 * 1024
HEADER_BYTES = 64 * 1024
SHUTDOWN_SECONDS = 5
"""For requests that are under way; a stream of events would never end by itself."""
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ApiServer(uvicorn.Server):
    """Once it listens, the home says where; so nobody's token goes to another program that has the port."""

    def __init__(self, app: FastAPI, settings: Settings, **options: Any) -> None:
        self._settings = settings
        self.announced = False
        own: dict[str, Any] = {
            "host": settings.host,
            "port": settings.port,
            "http": HeaderTimeoutProtocol,
            "log_config": None,
            "access_log": False,
            "server_header": False,
            "timeout_keep_alive": KEEP_ALIVE_SECONDS,
            "limit_concurrency": CONNECTIONS,
            "h11_max_incomplete_event_size": HEADER_BYTES,
            "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
            "forwarded_allow_ips": os.environ.get("FORWARDED_ALLOW_IPS", ""),  # uvicorn itself would believe every process of this machine
        }
        super().__init__(uvicorn.Config(app, **own | options))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            host = ANYWHERE.get(host, host)
            announce_api(self._settings, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
            self.announced = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        withdraw_api(self._settings)
        await super().shutdown(sockets)


def allow_open_files() -> None:
    """As many as connections need beside everything else, where the system allows it: the usual limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
