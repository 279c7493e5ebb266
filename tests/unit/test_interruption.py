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
import sys
from contextlib import suppress
from engine.interruption import INTERRUPTED, interruptible, run_child
with suppress(KeyboardInterrupt), interruptible():
    sys.exit(run_child([sys.executable, "-c", sys.argv[1], sys.argv[2]])[0])
sys.exit(INTERRUPTED)
"""
CHILD = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path(sys.argv[1]).write_text("told")
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[1]).write_text("there")
time.sleep(600)
"""


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_child_is_told_to_end_and_waited_for(tmp_path: Path, told: signal.Signals) -> None:
    file = tmp_path / "file"
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD, str(file)], cwd=ROOT) as parent:
        deadline = time.monotonic() + 60
        while not file.exists() or not file.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (child,) = psutil.Process(parent.pid).children()
        os.kill(parent.pid, told)
        assert parent.wait(60) == INTERRUPTED
    assert file.read_text() == "told"
    assert not child.is_running()


def test_how_a_child_ends_is_passed_on() -> None:
    assert subprocess.run([sys.executable, "-c", PARENT, "import sys; sys.exit(5)", ""], cwd=ROOT, check=False).returncode == 5
