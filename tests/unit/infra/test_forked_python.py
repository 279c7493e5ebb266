"""The interpreter that tests begin processes with does as a true one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forked_python.interpreter import forked_python

SURROUNDINGS = "import json, os, sys; print(json.dumps([sys.argv, sys.path[0], os.getcwd(), sorted(os.environ), os.umask(0o77)]))"
PROGRAMS = {
    "surroundings": SURROUNDINGS,
    "says": "raise SystemExit('no')",
    "fails": "1 / 0",
    "aborts": "import os; os.abort()",
    "is interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "leaves": "import atexit; atexit.register(print, 'gone'); raise SystemExit(7)",
    "reads": "import sys; print(sys.stdin.read().upper())",
    "has a parent": "import os, psutil; print(os.getppid(), psutil.Process().parent().pid)",
}


@pytest.fixture(scope="module")
def python() -> str:
    return forked_python()


def ran(python: str, *arguments: str, **more: Any) -> tuple[int, str, str]:
    """Exit code, output and the last line of the errors."""
    done = subprocess.run([python, *arguments], capture_output=True, text=True, input="text", timeout=60, check=False, **more)
    return done.returncode, done.stdout, done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_alike(python: str, tmp_path: Path, name: str) -> None:
    more = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "OWN": "1"}}
    expected = ran(sys.executable, "-c", PROGRAMS[name], "word", **more)
    assert ran(python, "-c", PROGRAMS[name], "word", **more) == expected


def test_modules_and_files_run_alike(python: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(__name__, __file__, sys.argv, sys.path[0])")
    for arguments in (("-m", "program", "word"), (str(tmp_path / "program.py"), "word"), ("-I", "-c", "print(1)"), ("-m", "nothing")):
        assert ran(python, *arguments, cwd=tmp_path)[:2] == ran(sys.executable, *arguments, cwd=tmp_path)[:2]


def test_files_that_are_passed_on_keep_their_numbers(python: str) -> None:
    ours, theirs = os.pipe()
    ran(python, "-c", f"import os; os.write({theirs}, b'here')", pass_fds=(theirs,))
    assert os.read(ours, 9) == b"here"
    os.close(ours)
    os.close(theirs)


def test_signals_reach_the_process_and_a_kill_ends_it(python: str) -> None:
    code = "import os, signal, time; signal.signal(15, lambda *_: os._exit(3)); print(os.getpid(), flush=True); time.sleep(60)"
    for number, expected in ((signal.SIGTERM, 3), (signal.SIGKILL, -9)):
        process = subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        copy = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(60) == expected
        deadline = time.monotonic() + 60
        while Path(f"/proc/{copy}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
