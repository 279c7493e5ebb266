"""The Hugging Face hub, as far as a download needs it, with one model."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

COMMIT = 40 * "a"
WEIGHTS = "model.safetensors"


class StandInHub(ThreadingHTTPServer):
    """Has ``folder`` as owner/name. Whoever asks for its weights before ``released`` gets half of them, and this process SIGTERM; ``left``
    says that it went away then."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.asked = folder, list[str]()
        self.released, self.left = Event(), Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def stand_in_hub(folder: Path) -> Iterator[StandInHub]:
    with StandInHub(folder) as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        try:
            yield hub
        finally:
            hub.released.set()
            hub.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: StandInHub

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._begin(self._file().stat().st_size)

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/api/models/owner/name/revision/"):
            self._send(json.dumps({"id": "owner/name", "sha": COMMIT}).encode())
        elif path.startswith("/api/models/owner/name/tree/"):
            files = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": COMMIT} for file in self.server.folder.iterdir()
            ]
            self._send(json.dumps(files).encode())
        else:
            self.server.asked.append(self._file().name)
            self._send(self._file().read_bytes(), waits=self._file().name == WEIGHTS)

    def _file(self) -> Path:
        return self.server.folder / Path(urlsplit(self.path).path).name

    def _begin(self, size: int) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(size), "ETag": f'"{self._file().name}"', "X-Repo-Commit": COMMIT}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, content: bytes, waits: bool = False) -> None:
        self._begin(len(content))
        half = len(content) // 2
        self.wfile.write(content[:half])
        if waits and not self.server.released.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            self.connection.settimeout(20)
            with suppress(ConnectionResetError):
                self.rfile.read(1)  # which says nothing more until it goes away
            self.server.left.set()
            return
        self.wfile.write(content[half:])
