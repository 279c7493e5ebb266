"""The server under the API: many connections at a time, and how clients of this machine find it."""

import json
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from running_server import Running

from backend.api.server import allow_open_files
from backend.database import Database
from backend.settings import Settings
from backend.stack.home_folder import lock_home, write_server_file
from longtail import Longtail
from longtail.logins import discover, token_for

SECONDS = 60.0
CONNECTIONS = 12
FLOOD = 40
LOGIN = b"POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def crowded(settings: Settings, database: Database) -> Iterator[Running]:  # noqa: ARG001 - the tables have to be there
    """A server of few connections."""
    with Running(settings, limit_concurrency=CONNECTIONS) as running:
        yield running


def connected(running: Running, start: bytes) -> socket.socket:
    address = urlsplit(running.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    connection.sendall(start)
    return connection


@pytest.mark.parametrize("start", [b"", b"G", ASKED[:-2], ASKED, LOGIN, LOGIN + b"{"], ids=len)
def test_idle_connections_keep_nobody_out(crowded: Running, start: bytes) -> None:
    with ExitStack() as resources:
        for _ in range(FLOOD):
            resources.enter_context(connected(crowded, start))
        deadline = time.monotonic() + SECONDS
        health = f"{crowded.url}/healthz"
        while httpx.get(health, timeout=60, trust_env=False).status_code != 200:  # a request that is given up takes a moment to end
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_who_is_served_is_not_hung_up_on(crowded: Running, settings: Settings) -> None:
    """An event stream goes on, however many connect and say nothing."""
    client = Longtail(crowded.url, settings.token_file.read_text())
    run_id = client.begin("mine").id
    with ExitStack() as resources:
        asked = {"Authorization": f"Bearer {client.token}"}
        url = f"{crowded.url}/api/v1/runs/{run_id}/events"
        stream = resources.enter_context(httpx.stream("GET", url, headers=asked, timeout=60, trust_env=False))
        lines = stream.iter_lines()
        assert next(lines) == "event: run"
        for _ in range(FLOOD):
            resources.enter_context(connected(crowded, b""))
        with Longtail(crowded.url, client.token) as another:  # the connection of the first says nothing either, and may be hung up
            another.finish(run_id, "succeeded")
        assert any("succeeded" in line for line in lines)


def test_a_process_may_open_more_files_than_usual() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1024
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- an API that no stack has started


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(settings.home))
    monkeypatch.delenv("LONGTAIL_URL", raising=False)


@pytest.mark.usefixtures("at_home")
def test_commands_of_its_home_find_it_while_it_runs(running: Running, settings: Settings) -> None:
    assert discover() == running.url
    with Longtail() as client:
        assert client.me().user == "admin"
    assert settings.server_file.stat().st_mode & 0o077 == 0
    running.stop()
    assert not settings.server_file.exists()
    assert token_for(running.url) == "", "nobody knows who listens there now"
    running.start()
    assert discover() == running.url


@pytest.mark.usefixtures("at_home")
def test_a_stack_speaks_for_its_own_api(settings: Settings, database: Database) -> None:  # noqa: ARG001 - the tables have to be there
    with lock_home(settings):
        write_server_file(settings, "http://127.0.0.1:1", "http://127.0.0.1:2", [])
        noted = settings.server_file.read_text()
        with Running(settings) as running:
            assert settings.server_file.read_text() == noted
            assert running.url != "http://127.0.0.1:1"


@pytest.mark.usefixtures("at_home")
def test_what_another_has_announced_stays(running: Running, settings: Settings) -> None:
    settings.server_file.write_text(json.dumps({"url": "http://127.0.0.1:1", "dashboard_url": None, "pid": os.getpid() + 1, "parts": []}))
    running.stop()
    assert discover() == "http://127.0.0.1:1"
    running.start()


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize(("host", "url"), [("0.0.0.0", "http://127.0.0.1"), ("::", "http://[::1]"), ("::1", "http://[::1]")])
def test_where_it_listens_on_all_addresses_this_machine_is_one(settings: Settings, database: Database, host: str, url: str) -> None:
    assert database
    with Running(settings, host=host):
        assert discover().rpartition(":")[0] == url
