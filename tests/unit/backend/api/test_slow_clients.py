"""Clients that dribble, or send too much: they get an answer or are hung up on, and nobody else waits."""

import socket
import time
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from running_server import Running

from backend.api.header_timeout import HeaderTimeoutProtocol
from backend.api.rate_limits import MOST_KEYS, RateLimit
from backend.database import Database
from backend.services.runs.attempts import add_log_line
from backend.settings import Settings

HEAD = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """A body may take its time on a busy machine, unless a test asks for a deadline."""
    return settings.model_copy(update={"body_seconds": getattr(request, "param", 60.0)})


@pytest.fixture
def connection(server: str) -> socket.socket:
    address = urlsplit(server)
    return socket.create_connection((address.hostname, address.port), timeout=120)


def status(connection: socket.socket) -> bytes:
    """The first line of the answer; empty if the server hangs up, or did so before everything was sent."""
    try:
        return connection.recv(65536).split(b"\r\n")[0]
    except ConnectionError:
        return b""


@pytest.mark.parametrize("start", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_headers_have_a_deadline(server: str, start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeaderTimeoutProtocol, "header_seconds", 0.3)
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port), timeout=120) as slow:
        slow.sendall(start)
        assert status(slow) == b""


def test_a_later_request_has_the_deadline_too(connection: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"200" in status(connection)
    monkeypatch.setattr(HeaderTimeoutProtocol, "header_seconds", 0.3)
    connection.sendall(b"GET /heal")
    assert status(connection) == b""


@pytest.mark.parametrize("settings", [1.0], indirect=True)
def test_a_body_that_does_not_come_is_refused_and_nobody_waits(connection: socket.socket, server: str) -> None:
    connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
    assert httpx.get(f"{server}/healthz", timeout=60).status_code == 200
    assert b" 408 " in status(connection)


def test_a_chunked_body_has_an_end(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    with suppress(ConnectionError):  # the server may have hung up before the last of it is there
        for _ in range(17):
            connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
    assert b" 413 " in status(connection)


def test_huge_headers_are_refused(connection: socket.socket) -> None:
    with suppress(ConnectionError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000)
    assert b" 400 " in status(connection)


def test_a_large_body_is_refused_before_it_is_sent(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
    assert b" 413 " in status(connection)


def test_without_a_token_no_body_is_read(connection: socket.socket) -> None:
    connection.sendall(HEAD.replace(b"sessions", b"runs") + b"Content-Length: 100\r\n\r\n")
    assert b" 401 " in status(connection)


def test_who_does_not_take_an_answer_keeps_no_connection_to_the_database(
    running: Running, settings: Settings, database: Database, run_id: str
) -> None:
    with database.write() as session:
        for _ in range(1000):
            add_log_line(session, run_id, "info", "", 10_000 * "x")
    address = urlsplit(running.url)
    with socket.create_connection((address.hostname, address.port), timeout=120) as slow:
        token = settings.token_file.read_text()
        slow.sendall(f"GET /api/v1/runs/{run_id}/logs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert b" 200 " in slow.recv(1000)
        deadline = time.monotonic() + 60
        while running.connections_in_use():  # others of the server's read, too
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_rate_limit_fills_up_again_and_forgets() -> None:
    now = 0.0
    limit = RateLimit(rate=2, burst=3, clock=lambda: now)
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limit.take("b") == 0
    now = 0.5
    assert [limit.take("a"), limit.take("a")] == [0, 0.5]
    limit.give_back("a")
    assert limit.take("a") == 0
    for number in range(MOST_KEYS):
        limit.take(str(number))
    now = 1000.0
    limit.take("c")
    assert set(limit._levels) == {"c"}, "what has drained is forgotten"
