"""The real stack: API, worker on the embedded broker, Streamlit. Only the engine is a stand-in that sleeps."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from bare_model import make_bare_model

from backend.database import Database
from backend.models import Run
from backend.settings import Settings
from backend.stack.child_process import StackError, answers
from backend.stack.home_folder import read_server_file
from backend.stack.local_stack import Stack
from longtail import ApiError, Longtail
from longtail.identity import shown_address

ASLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
SERVE = "from backend.stack.local_stack import main; main(port=0, dashboard=False)"


def until(condition: Callable[[], bool], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def processes_of(home: Path) -> list[str]:
    """Command lines of the living processes that were started with this home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"LONGTAIL_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, said: list[str]) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("home"), port=0, dashboard_port=0, say=said.append) as stack:
        yield stack
    assert processes_of(stack.settings.home) == []
    assert not stack.settings.server_file.exists()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``longtail up`` in a process of its own, ready."""
    environment = os.environ | {"LONGTAIL_HOME": str(tmp_path), "LONGTAIL_ENGINE_COMMAND": json.dumps(ASLEEP)}
    process = subprocess.Popen([sys.executable, "-c", SERVE], env=environment, stdout=subprocess.PIPE, text=True)
    output = process.stdout
    assert output is not None
    until(lambda: "Ctrl-C" in output.readline())
    yield process
    process.kill()
    process.communicate()


def test_every_part_answers(stack: Stack) -> None:
    assert httpx.get(f"{stack.url}/readyz", timeout=60).json()["checks"].keys() >= {"database", "worker"}
    assert httpx.get(f"{stack.dashboard_url}/", headers={"accept": "text/html"}, timeout=60).headers["location"].startswith("/login")
    with Longtail(stack.url, stack.token) as client, httpx.Client(follow_redirects=True, timeout=60) as browser:
        reply = browser.get(shown_address(client, stack.dashboard_url, "/new"))
        assert (reply.status_code, str(reply.url)) == (200, f"{stack.dashboard_url}/new")
    noted = read_server_file(stack.settings)
    assert noted is not None
    assert (noted["url"], noted["dashboard_url"], noted["pid"]) == (stack.url, stack.dashboard_url, os.getpid())


def test_clients_of_the_home_find_it(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(stack.settings.home))
    monkeypatch.delenv("LONGTAIL_URL", raising=False)
    with Longtail() as client:
        assert client.base_url == stack.url
        assert client.presets()


def test_a_proxy_for_the_outside_is_not_asked(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Longtail(stack.url, stack.token) as client:
        assert client.presets()
    until(answers(f"{stack.url}/healthz"))


def test_api_and_worker_log_lines_of_json_without_secrets(stack: Stack) -> None:
    with Longtail(stack.url, stack.token) as client, pytest.raises(ApiError, match="there is no run"):
        client.cancel("0" * 16)
    logs = stack.settings.home / "logs"
    until(lambda: "/cancel" in (logs / "api.log").read_text())
    for name in ("api", "worker"):
        text = (logs / f"{name}.log").read_text()
        entries = [json.loads(line) for line in text.splitlines()]
        assert stack.token not in text
        told = [(entry["user"], entry["status"]) for entry in entries if entry.get("route") == "/api/v1/runs/{run_id}/cancel"]
        assert told == ([("admin", 404)] if name == "api" else [])


def test_a_second_stack_on_the_same_home_is_refused(stack: Stack) -> None:
    second = Stack(stack.settings.home, port=0, dashboard_port=0)
    with pytest.raises(StackError, match=f"another stack \\(process {os.getpid()}\\) serves {stack.url}"), second:
        pytest.fail("two stacks in one home")
    assert read_server_file(stack.settings) is not None


def test_a_taken_port_is_refused(stack: Stack) -> None:
    with pytest.raises(StackError, match="is not free"):
        Stack(stack.settings.home, port=stack.settings.port)


def test_nothing_listens_beyond_loopback(stack: Stack) -> None:
    noted = read_server_file(stack.settings)
    assert noted is not None
    for url in (stack.url, stack.dashboard_url):
        assert url is not None
        port = int(url.rpartition(":")[2])
        with socket.socket() as probe:
            probe.settimeout(2)
            assert probe.connect_ex((own_address(), port)) != 0


def own_address() -> str:
    """An address of this machine that is not loopback; 127.0.0.2 (loopback, but not ours) where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])


def test_a_part_that_dies_is_started_again(stack: Stack, said: list[str]) -> None:
    before = read_server_file(stack.settings)
    assert before is not None
    for pid, _ in before["parts"]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(said) == 3)
    assert all("ended with code -9; starting it again" in line for line in said)
    until(
        lambda: all(
            new[0] != old[0] for new, old in zip((read_server_file(stack.settings) or before)["parts"], before["parts"], strict=True)
        )
    )
    until(lambda: answers(f"{stack.url}/readyz")() and answers(f"{stack.dashboard_url}/_stcore/health")())


def test_ctrl_c_stops_everything(served: subprocess.Popen[str], tmp_path: Path) -> None:
    assert len(processes_of(tmp_path)) == 3
    served.send_signal(signal.SIGINT)
    assert served.wait(60) == 0
    assert processes_of(tmp_path) == []


def test_a_run_goes_back_to_the_queue_when_the_stack_is_terminated(served: subprocess.Popen[str], tmp_path: Path) -> None:
    noted = read_server_file(Settings(home=tmp_path))
    assert noted is not None
    model = make_bare_model(tmp_path / "model")
    with Longtail(noted["url"], Settings(home=tmp_path).token_file.read_text()) as client:
        run_id = client.submit({"model": {"path": str(model)}, "drafter": {"path": None}}).id
        until(lambda: client.run(run_id).state == "starting")
        until(lambda: any("sleep" in line for line in processes_of(tmp_path)))
    served.terminate()
    assert served.wait(60) == 0
    assert processes_of(tmp_path) == []
    with Database(Settings(home=tmp_path).database).read() as session:
        assert session.get_one(Run, run_id).state == "queued"


def test_what_a_killed_stack_leaves_is_swept_by_the_next(served: subprocess.Popen[str], tmp_path: Path) -> None:
    left = set(processes_of(tmp_path))
    served.kill()
    served.wait()
    assert len(set(processes_of(tmp_path)) & left) == 2
    with Stack(tmp_path, dashboard=False, port=0):
        assert len(processes_of(tmp_path)) == 2
    assert processes_of(tmp_path) == []


def test_a_part_that_does_not_come_up_ends_the_stack_and_shows_its_log(tmp_path: Path) -> None:
    settings = Settings(broker_url="nonsense://")
    with (
        pytest.raises(StackError, match=r"(?s)worker ended with code 1.*No such transport"),
        Stack(tmp_path, port=0, dashboard=False, settings=settings),
    ):
        pytest.fail("a worker without a broker")
    assert processes_of(tmp_path) == []
