"""Programs in the sandbox; each attack is first shown to work outside of it."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from models_for_tests import byte_tokenizer

from engine.errors import DataError
from engine.tasks.code import code_of
from engine.tasks.config import CodeConfig
from engine.tasks.registry import build_task, check_rows
from engine.tasks.rewards import rewards_of
from engine.tasks.sandbox import NAMESPACES, Sandbox

ALLOWED = subprocess.run([*NAMESPACES, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
needs_namespaces = pytest.mark.skipif(not ALLOWED, reason="this machine allows no user namespaces")
LIMITED, WALLED = (Sandbox(2.0, 256, isolation) for isolation in ("limits", "namespaces"))
BOTH = [pytest.param(LIMITED, id="limits"), pytest.param(WALLED, id="namespaces", marks=needs_namespaces)]


@pytest.mark.parametrize("sandbox", BOTH)
@pytest.mark.parametrize(
    ("program", "passes"),
    [
        ("assert 1 + 1 == 2", True),
        ("import json, math, collections, re; print(json.dumps({'a': math.pi}))", True),
        ("open('longtail_scratch', 'w').write('x')", True),
        ("assert 1 + 1 == 3", False),
        ("import sys; sys.exit(0)", False),
        ("import os; os._exit(0)", False),
        ("print('ok')\nraise SystemExit", False),
        ("syntax error", False),
        ("\ud800", False),
        ("while True: pass", False),
        ("import time; time.sleep(60)", False),
        ("x = bytearray(2**30)", False),
        ("import tempfile; tempfile.TemporaryFile().write(b'x')", True),
        ("open('longtail_scratch', 'wb').write(bytes(64 * 2**20))", False),
        ("import ctypes; ctypes.string_at(0)", False),
    ],
)
def test_what_passes(sandbox: Sandbox, program: str, passes: bool) -> None:
    assert sandbox.passes(program) == passes


@needs_namespaces
def test_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 1)"
        assert LIMITED.passes(program)
        assert not WALLED.passes(program)


@needs_namespaces
def test_no_other_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        program = f"import os; os.kill({victim.pid}, 0)"
        assert LIMITED.passes(program)
        assert not WALLED.passes(program)
        assert WALLED.passes("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass")
        assert victim.poll() is None
        victim.kill()


@needs_namespaces
def test_no_file_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    file.write_text("kept")
    tmp_path.chmod(0o755)
    write, remove = f"open({str(file)!r}, 'a').write('x')", f"import os; os.remove({str(file)!r})"
    remount = (
        "import ctypes; libc = ctypes.CDLL(None); attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)\n"
        "assert libc.syscall(442, -100, b'/', 0x8000, attributes, 32) == 0"
    )
    assert not any(WALLED.passes(program) for program in (write, remove, remount, "import os; os.mkdir('/longtail')"))
    assert file.read_text() == "kept"
    assert LIMITED.passes(write)


@needs_namespaces
def test_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_TOKEN", "secret")
    assert WALLED.passes("import os; assert 'LONGTAIL_TOKEN' not in os.environ")


@needs_namespaces
def test_threads_but_no_new_processes() -> None:
    assert WALLED.passes("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()")
    for program in ("import os\nif os.fork() == 0: os._exit(0)", "import subprocess; subprocess.run(['true'], check=True)"):
        assert LIMITED.passes(program)
        assert not WALLED.passes(program)


ROW: dict[str, object] = {"question": "Write f, which doubles.", "tests": ["assert f(2) == 4", "assert f(3) == 6"]}


def written(tmp_path: Path, *rows: dict[str, object], **settings: object) -> CodeConfig:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CodeConfig.model_validate({"path": path, "seconds": 2.0, "isolation": "namespaces" if ALLOWED else "limits"} | settings)


def test_rewards_of_a_task(tmp_path: Path) -> None:
    task = build_task(written(tmp_path, ROW), 0, byte_tokenizer())
    (prompt,) = task.prompts(0, 1)
    responses = ["```python\ndef f(x): return 2 * x\n```", "```\ndef f(x): return 4\n```", "no code at all", "def f(x): return x + x"]
    assert rewards_of(task, [prompt] * 4, responses) == [1.0, 0.0, 0.0, 1.0]


def test_partial_rewards_are_shares_of_the_tests(tmp_path: Path) -> None:
    task = build_task(written(tmp_path, ROW, partial=True), 0, byte_tokenizer())
    assert task.reward(task.prompts(0, 1)[0], "def f(x): return 4") == 0.5


def test_one_text_of_tests(tmp_path: Path) -> None:
    task = build_task(written(tmp_path, ROW | {"tests": "assert f(2) == 4"}), 0, byte_tokenizer())
    assert task.reward(task.prompts(0, 1)[0], "def f(x): return 4") == 1.0


@pytest.mark.parametrize("tests", [[], 5, " ", None])
def test_rows_without_tests_are_refused(tmp_path: Path, tests: object) -> None:
    with pytest.raises(DataError, match="line 2: column 'tests' must be"):
        check_rows(written(tmp_path, ROW, ROW | {"tests": tests}))


def test_the_last_block_counts() -> None:
    assert code_of("```python\nx = 1\n``` or rather\n```py\nx = 2\n```") == "x = 2\n"
    assert code_of("x = 3") == "x = 3"


def test_programs_run_side_by_side() -> None:
    began = time.monotonic()
    threads = [Thread(target=LIMITED.passes, args=("import time; time.sleep(1)",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < 3.5


def test_the_cell_loads_nothing_of_ours() -> None:
    program = f"import sys; assert not any(name.startswith('engine') for name in sys.modules), {os.getpid()}"
    assert sys.modules["engine"]
    assert LIMITED.passes(program)
