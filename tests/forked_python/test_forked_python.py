"""The interpreter that tests begin processes with does as a true one."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_python.interpreter import start_server

MARK = "wave"
"""A module that nothing imports but the server."""
PROGRAMS = {
    "surroundings": "import json, os, sys; print(json.dumps([sys.argv, sys.path[0], os.getcwd(), sorted(os.environ), os.umask(0o77)]))",
    "limits": "import os, resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), os.sched_getaffinity(0))",
    "mask": "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))",
    "a main of its own": "print(sorted(globals()))",
    "says": "raise SystemExit('no')",
    "fails": "1 / 0",
    "has a hook": "import sys; sys.excepthook = lambda *_: print('hooked'); 1 / 0",
    "aborts": "import os; os.abort()",
    "is interrupted": "import atexit, os, signal; atexit.register(print, 'gone'); os.kill(os.getpid(), signal.SIGINT)",
    "leaves": "import atexit; atexit.register(print, 'gone'); raise SystemExit(7)",
    "reads": "import sys; print(sys.stdin.read().upper())",
    "has a parent": "import os, psutil; print(os.getppid(), psutil.Process().parent().pid)",
    "has a folder for files": "import tempfile; print(tempfile.gettempdir())",
}


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    path, server = start_server(MARK)
    yield path
    assert server.stdin
    server.stdin.close()
    assert server.wait(60) == 0
    assert not Path(path).exists()


def ran(python: str, *arguments: str, **more: Any) -> tuple[int, str, str]:
    """Exit code, output and the last line of the errors."""
    done = subprocess.run([python, *arguments], capture_output=True, text=True, input="text", timeout=60, check=False, **more)
    return done.returncode, done.stdout, done.stderr.strip().rpartition("\n")[2]


def narrow() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, 600))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})


def test_a_process_is_a_copy_of_the_server(python: str) -> None:
    code = f"import sys; print('{MARK}' in sys.modules)"
    assert ran(python, "-c", code)[1].strip() == "True"
    assert ran(python, "-I", "-c", code)[1].strip() == "False", "options are for a true interpreter"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_alike(python: str, tmp_path: Path, name: str) -> None:
    more = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}, "preexec_fn": narrow}
    expected = ran(sys.executable, "-c", PROGRAMS[name], "word", **more)
    assert ran(python, "-c", PROGRAMS[name], "word", **more) == expected


def test_modules_and_files_run_alike(python: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(__name__, __file__, sys.argv, sys.path[0])")
    for arguments in (("-m", "program", "word"), (str(tmp_path / "program.py"), "word"), ("-I", "-c", "print(1)"), ("-m", "nothing")):
        assert ran(python, *arguments, cwd=tmp_path)[:2] == ran(sys.executable, *arguments, cwd=tmp_path)[:2]


def test_files_that_are_passed_on_keep_their_numbers(python: str) -> None:
    ours, theirs = os.pipe()
    assert ran(python, "-c", f"import os; os.write({theirs}, b'here')", pass_fds=(theirs,))[0] == 0
    os.close(theirs)
    assert os.read(ours, 9) == b"here"
    os.close(ours)


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 3), (signal.SIGKILL, -9)])
def test_signals_reach_the_process_and_a_kill_ends_it_and_its_group(python: str, number: int, expected: int) -> None:
    code = """if True:
        import os, signal, subprocess, sys, time
        child = subprocess.Popen(["sleep", "600"])
        signal.signal(15, lambda *_: (child.kill(), os._exit(3)))
        print(os.getpid(), child.pid, flush=True)
        time.sleep(600)"""
    process = subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout
    begun = process.stdout.readline().split()
    process.send_signal(number)
    assert process.wait(60) == expected
    for each in begun:
        await_end(int(each))


def test_a_client_that_is_gone_at_once_harms_nobody(python: str) -> None:
    sleeper = subprocess.Popen([python, "-c", "import time; time.sleep(600)"])
    for data in (b"", (100).to_bytes(4, "big"), (2).to_bytes(4, "big") + b"{}"[:1]):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(Path(python).with_name("server")))
            client.send(data)
    assert ran(python, "-c", "print(1)")[:2] == (0, "1\n")
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait(60)


def test_copies_end_with_their_server() -> None:
    python, server = start_server(MARK)
    process = subprocess.Popen([python, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
    assert process.stdout
    copy = json.loads(process.stdout.readline())
    server.kill()
    await_end(copy)
    process.wait(60)


def await_end(process: int) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
