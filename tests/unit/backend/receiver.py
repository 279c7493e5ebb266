"""A small HTTP server that keeps what it is sent."""

import http.server
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that breaks off is no news."""


class Receiver:
    """``answers`` are the statuses of its answers, the last of them for ever; ``slow`` sends a header line every so many seconds."""

    def __init__(self, *answers: int, slow: float = 0.0, certificate: str | None = None) -> None:
        self.received: list[Received] = []
        left = list(answers or (204,))
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.received.append(Received(self.path, {name.lower(): text for name, text in self.headers.items()}, body))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                for number in range(20 if slow else 0):
                    self.flush_headers()
                    time.sleep(slow)
                    self.send_header(f"x-{number}", "y")
                self.end_headers()

            def do_GET(self) -> None:
                receiver.received.append(Received(self.path, {}, b""))

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
