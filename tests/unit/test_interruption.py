"""Being told to end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.interruption import INTERRUPTED

ROOT = Path(__file__).parents[2]
PARENT = """
import signal, sys
from contextlib import suppress
from engine import interruption
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
interruption.ALONE, interruption.TOLD = 0.5, float(sys.argv[1])
with suppress(KeyboardInterrupt), interruption.interruptible():
    sys.exit(interruption.run_child([sys.executable, "-c", *sys.argv[2:]], stderr=-1, text=True)[0])
sys.exit(interruption.INTERRUPTED)
"""
CHILD = """
import pathlib, signal, sys, time
def end(*_):
    print("!" * 200_000, file=sys.stderr)
    pathlib.Path(sys.argv[1]).write_text("told")
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1]).write_text("there")
time.sleep(600)
"""
DEAF = CHILD.replace("    sys.exit(7)\n", "")


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)


def told(number: signal.Signals, file: Path, *command: str) -> psutil.Process:
    """The last of the processes of ``command``, after the first was told to end, and has."""
    with subprocess.Popen([sys.executable, "-c", *command, str(file)], cwd=ROOT) as parent:
        try:
            deadline = time.monotonic() + 60
            while not file.exists() or not file.read_text():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            last = psutil.Process(parent.pid).children(recursive=True)[-1]
            os.kill(parent.pid, number)
            assert parent.wait(60) == INTERRUPTED
        finally:
            parent.kill()  # else a test that fails waits for it
    return last


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_child_is_told_to_end_and_waited_for_whatever_it_has_to_say(tmp_path: Path, number: signal.Signals) -> None:
    assert ended(told(number, tmp_path / "file", PARENT, "60", CHILD))
    assert (tmp_path / "file").read_text() == "told"


def test_no_child_of_a_child_is_left(tmp_path: Path) -> None:
    """The one in between has no time to kill it."""
    assert ended(told(signal.SIGTERM, tmp_path / "file", PARENT, "1.5", PARENT, "60", DEAF))
    assert (tmp_path / "file").read_text() == "told"


def test_how_a_child_ends_is_passed_on() -> None:
    command = [sys.executable, "-c", PARENT, "60", "import sys; sys.exit(5)", ""]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 5
