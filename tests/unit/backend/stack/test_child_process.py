import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.jobs.engine.processes import start_time
from backend.stack.child_process import ChildProcess, StackError

DETACHED = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)"


def make(folder: Path, code: str, healthy: bool = True, grace: float = 60.0) -> ChildProcess:
    return ChildProcess("thing", (sys.executable, "-c", code), os.environ, folder / "thing.log", lambda: healthy, grace)


def read_pid(part: ChildProcess) -> int:
    """The process id that the part's code prints, once it has."""
    deadline = time.monotonic() + 60
    while not (text := part.log.read_text()).endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(text)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_a_part_that_ends_at_once_says_why(tmp_path: Path) -> None:
    part = make(tmp_path, "raise SystemExit('no database')", healthy=False)
    part.start()
    with pytest.raises(StackError, match=r"(?s)thing ended with code 1.*no database"):
        part.wait_until_healthy(time.monotonic() + 60)


def test_a_part_that_is_late_shows_its_log(tmp_path: Path) -> None:
    part = make(tmp_path, "import time; print('thinking', flush=True); time.sleep(60)", healthy=False)
    part.start()
    while "thinking" not in part.log.read_text():
        time.sleep(0.02)
    with pytest.raises(StackError, match=r"(?s)does not answer.*thinking"):
        part.wait_until_healthy(time.monotonic())
    part.stop()


def test_stopping_is_gentle_first(tmp_path: Path) -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(1, flush=True); time.sleep(60)"
    part = make(tmp_path, code)
    part.start()
    read_pid(part)
    part.stop()
    assert part.exit_code == 7


def test_stopping_kills_what_does_not_listen(tmp_path: Path) -> None:
    part = make(tmp_path, "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)", grace=0.2)
    part.start()
    read_pid(part)
    part.stop()
    assert part.exit_code == -9


def test_stopping_reaches_children_in_sessions_of_their_own_and_nobody_else(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    part = make(tmp_path, f"{DETACHED}; print(p.pid, flush=True); p.wait()")
    part.start()
    child = read_pid(part)
    assert start_time(child) is not None
    part.stop()
    assert start_time(child) is None
    assert bystander.poll() is None


def test_ends_in_quick_succession_are_counted(tmp_path: Path) -> None:
    part = make(tmp_path, "")
    part.start()
    assert [part.count_end(steady_seconds=60), part.count_end(steady_seconds=60)] == [1, 2]
    time.sleep(0.01)
    assert part.count_end(steady_seconds=0.001) == 1
    part.stop()


def test_a_large_log_is_put_aside(tmp_path: Path) -> None:
    part = make(tmp_path, "print('new')")
    with part.log.open("wb") as log:
        log.truncate(11 * 2**20)
    part.start()
    part.stop()
    assert part.log.with_suffix(".log.1").stat().st_size == 11 * 2**20
    assert part.log.stat().st_size < 100
