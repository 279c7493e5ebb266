"""Programs in the sandbox; each attack is first shown to work outside of it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from models_for_tests import byte_tokenizer

from engine.config.task import CodeConfig
from engine.errors import ConfigError, DataError
from engine.tasks.code import code_of
from engine.tasks.registry import build_task, check_rows
from engine.tasks.rewards import rewards_of
from engine.tasks.sandbox import Sandbox, _specials

INSTALLED = shutil.which("bwrap") is not None
needs_bubblewrap = pytest.mark.skipif(not INSTALLED, reason="needs bubblewrap: apt-get install bubblewrap")
LIMITED, WALLED = (Sandbox(60.0, 256, isolation) for isolation in ("limits", "namespaces"))
BOTH = [pytest.param(LIMITED, id="limits"), pytest.param(WALLED, id="namespaces", marks=needs_bubblewrap)]
DOUBLE = "def f(x): return 2 * x"


def runs(sandbox: Sandbox, program: str) -> bool:
    """Whether the program comes to its end."""
    return sandbox.passes(program, "")


@pytest.mark.parametrize("sandbox", BOTH)
@pytest.mark.parametrize(
    ("program", "ends"),
    [
        ("assert 1 + 1 == 2", True),
        ("import json, math, collections, re; print(json.dumps({'a': math.pi}))", True),
        ("import os, tempfile; os.chdir(tempfile.gettempdir()); open('longtail_scratch', 'w').write('x')", True),
        ("assert 1 + 1 == 3", False),
        ("import sys; sys.exit(0)", False),
        ("import os; os._exit(0)", False),
        ("print('ok')\nraise SystemExit", False),
        ("syntax error", False),
        ("\ud800", False),
        ("while True: pass", False),
        ("import time; time.sleep(600)", False),
        ("x = bytearray(2**30)", False),
        ("import tempfile; tempfile.TemporaryFile().write(b'x')", True),
        ("import tempfile; tempfile.TemporaryFile().write(bytes(64 * 2**20))", False),
        ("import ctypes; ctypes.string_at(0)", False),
        ("import numpy; numpy.zeros(3)", True),
        ("import asyncio; asyncio.run(asyncio.sleep(0))", True),
    ],
)
def test_which_programs_run(sandbox: Sandbox, program: str, ends: bool) -> None:
    assert runs(sandbox if ends else replace(sandbox, seconds=2.0), program) == ends


def test_tests_that_say_much_fill_no_memory_of_ours() -> None:
    tests = "import os, sys\nwhile True: os.write(sys._getframe(1).f_locals['verdict'], bytes(2**16))"
    tracemalloc.start()
    assert not Sandbox(0.5, 256, "limits").passes("", tests)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


@needs_bubblewrap
def test_there_is_no_memory_beside_a_programs_own() -> None:
    assert runs(WALLED, "import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) == -1")
    assert not runs(WALLED, "import os; os.memfd_create('x')")


@pytest.mark.parametrize("sandbox", BOTH)
@pytest.mark.parametrize(
    ("program", "tests"),
    [
        (DOUBLE, "assert f(2) == 4\nassert [f(x) for x in range(3)] == [0, 2, 4]"),
        (DOUBLE, "def check(candidate):\n    assert candidate(x=2) == 4\ncheck(f)"),
        (
            "def f(): return {(1, 'a'): [2.5, None], 2: {b'x', 1j}}, frozenset('a')",
            "assert f() == ({(1, 'a'): [2.5, None], 2: {b'x', 1j}}, {'a'})",
        ),
        ("def f(): return float('inf'), float('nan'), 10**5000", "a, b, c = f(); assert a > 1 and b != b and c == 10**5000"),
        ("def f(x): x.sort()", "x = [3, 1, 2]; assert f(x) is None; assert x == [1, 2, 3]"),
        ("def f(x): raise ValueError(x)", "try: f('no')\nexcept ValueError as error: assert str(error) == 'no'\nelse: assert False"),
        ("def f(g, n): return [g(x) for x in range(n)]", "assert f(lambda x: x + 1, 3) == [1, 2, 3]"),
        ("def f(n): yield from range(n)", "assert list(f(3)) == [0, 1, 2]; assert sum(f(4)) == 6"),
        (
            "class A:\n    def __init__(self, x): self.x = x\n    def f(self): return self.x",
            "a = A(2); a.x = 3; assert a.f() == a.x == 3; assert a",
        ),
        (
            "class N:\n    def __init__(self, n): self.next = N(n - 1) if n else None",
            "n = N(2); i = 0\nwhile n: n = n.next; i += 1\nassert i == 3",
        ),
        ("import math\ndef f(): return math.pi", "assert math.isclose(f(), 3.14159, abs_tol=1e-4)"),
        ("import numpy\ndef f(): return numpy.arange(3), numpy.float32(0.5), numpy.int64(7)", "assert f() == ([0, 1, 2], 0.5, 7)"),
        ("import numpy as np\ndef f(x): return np.array([x])", "import numpy as np; assert np.allclose(f(2), [2.0])"),
        ("import numpy as x\ndef f(y): return y", "x = 3; assert f(x) == 3"),
        ("def f(): return 3.14", "assert math.isclose(f(), 3.14) and np.allclose(f(), 3.14)"),
        ("class Queue:\n    def push(self, x): return x\nqueue = Queue()", "assert queue.push(1) == 1"),
        ("class heapq:\n    def f(self): return 1", "assert heapq().f() == 1"),
        ("def f(): return 1\nif __name__ == '__main__': raise SystemExit", "assert f() == 1"),
        ("def sum(a, b): return a * b", "assert sum(3, 4) == 12"),
        (DOUBLE, "if __name__ == '__main__': assert f(1) == 2"),
    ],
)
def test_what_tests_can_do(sandbox: Sandbox, program: str, tests: str) -> None:
    assert sandbox.passes(program, tests)
    assert not sandbox.passes(program, f"{tests}\nassert False")


WRITE = "import os\nfor number in range(64):\n    try: os.write(number, {})\n    except OSError: pass\n"
ANY = """
class Any:
    __eq__ = __ne__ = __lt__ = __gt__ = __contains__ = lambda *_: True
    __sub__ = __rsub__ = __abs__ = lambda *_: 0
"""
FRAMES = """
import sys
def f(x):
    frame = sys._getframe()
    while frame:
        frame.f_globals["PASSED"] = 1
        frame = frame.f_back
    sys.exit()
"""
FORGERIES = {
    "the verdict on every descriptor": WRITE.format("b'passed'") + "os._exit(0)",
    "answers of its own": WRITE.format("""b'["returned", 4, []]\\n' * 9""") + "def f(x): return 5",
    "the end of the program": "import os\ndef f(x): os._exit(0)",
    "an object that equals everything": f"{ANY}def f(x): return Any()",
    "a class that equals everything": f"{ANY}f = lambda x: Any",
    "other builtins": "def f(x): return 5\ndef all(x): return True\nabs = len = isinstance = all\n__name__ = 'x'",
    "builtins of its own": "import builtins\nbuiltins.all = lambda _: True\ndef f(x): return 5",
    "a subclass of int": "class Int(int):\n    __eq__ = lambda *_: True\n    __hash__ = None\ndef f(x): return Int(5)",
    "frames": FRAMES,
}
TESTS = """assert f(2) == 4 or f(2) == 4.5
assert all(f(x) == 2 * x for x in range(5))
assert abs(f(3) - 6) < 0.1 and f(3) in (6,)
assert isinstance(f(3), int)"""


@pytest.mark.parametrize("sandbox", BOTH)
@pytest.mark.parametrize("name", FORGERIES)
def test_no_verdict_can_be_forged(sandbox: Sandbox, name: str) -> None:
    assert sandbox.passes(DOUBLE, TESTS)
    assert not sandbox.passes(FORGERIES[name], TESTS)
    assert not sandbox.passes(FORGERIES[name], f"if __name__ == '__main__':\n    {TESTS.splitlines()[0]}")


@pytest.mark.parametrize("error", ["ValueError", "OSError", "EOFError", "Exception"])
def test_the_end_of_a_program_is_no_exception_that_a_test_expects(error: str) -> None:
    tests = f"try: f(1)\nexcept {error}: pass\ntry: f(2)\nexcept {error}: pass"
    assert LIMITED.passes(f"def f(x): raise {error}", tests)
    assert not LIMITED.passes("import os\ndef f(x): os._exit(0)", tests)


@needs_bubblewrap
def test_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 1)"
        assert runs(LIMITED, program)
        assert not runs(WALLED, program)


ADDRESSES = {
    "abstract": lambda folder: "\0longtail-" + Path(folder).name,
    "in a folder that is not there": lambda folder: f"{folder}/socket",
    "in a folder that is": lambda folder: f"{folder}/socket",
}
CONNECT = {
    "stream": "import socket; socket.socket(socket.AF_UNIX).connect({!r})",
    "datagram": "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect({!r})",
    "pair": "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].connect({!r})",
}


@needs_bubblewrap
@pytest.mark.parametrize("way", CONNECT)
@pytest.mark.parametrize("where", ADDRESSES)
def test_no_unix_socket(where: str, way: str) -> None:
    parent = sysconfig.get_path("purelib") if where == "in a folder that is" else Path.home()
    kind = socket.SOCK_STREAM if way == "stream" else socket.SOCK_DGRAM
    with TemporaryDirectory(prefix="lt-", dir=parent) as folder, socket.socket(socket.AF_UNIX, kind) as server:
        address = ADDRESSES[where](folder)
        server.bind(address)
        if way == "stream":
            server.listen()
        program = CONNECT[way].format(address)
        assert runs(LIMITED, program)
        assert not runs(WALLED, program)


@needs_bubblewrap
def test_no_named_pipe() -> None:
    """Those in Python's folders can be opened though nothing there can be written."""
    with TemporaryDirectory(prefix="lt-", dir=sysconfig.get_path("purelib")) as folder:
        pipe = f"{folder}/pipe"
        os.mkfifo(pipe)
        outside = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        send = f"import os; os.write(os.open({pipe!r}, os.O_WRONLY | os.O_NONBLOCK), b'out')"
        receive = f"import os; assert os.read(os.open({pipe!r}, os.O_RDONLY | os.O_NONBLOCK), 9) == b'in'"
        _specials.cache_clear()
        for sandbox, possible in ((LIMITED, True), (WALLED, False)):
            os.write(outside, b"in")
            assert runs(sandbox, receive) == possible
            assert possible or os.read(outside, 9) == b"in"
            assert runs(sandbox, send) == possible
            assert not possible or os.read(outside, 9) == b"out"
        os.close(outside)
    assert runs(WALLED, "pass"), "a pipe that is gone meanwhile does no harm"


@needs_bubblewrap
@pytest.mark.parametrize(
    "call",
    [
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socket(40, socket.SOCK_STREAM)",  # a vsock
        "libc.syscall(425, 4, ctypes.create_string_buffer(256))",  # io_uring_setup
        "libc.msgget(0, 0o1600)",
        "libc.semget(0, 32000, 0o1600)",  # 2 MiB
        "libc.syscall(447, 0)",  # memfd_secret
        "libc.syscall(platform.machine() == 'x86_64' and 206, 100, ctypes.create_string_buffer(8))",  # io_setup
    ],
)
def test_which_calls_are_refused(call: str) -> None:
    prepared = "import ctypes, errno, platform, socket; libc = ctypes.CDLL(None, use_errno=True)"
    assert runs(WALLED, f"{prepared}\ntry: {call}\nexcept PermissionError: pass\nelse: assert ctypes.get_errno() == errno.EPERM")


@needs_bubblewrap
def test_of_an_installation_only_its_library_is_seen() -> None:
    assert runs(WALLED, f"import os; assert set(os.listdir({sys.base_prefix!r})) <= {{'bin', 'lib', 'lib64'}}")


@needs_bubblewrap
def test_no_other_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        program = f"import os; os.kill({victim.pid}, 0)"
        assert runs(LIMITED, program)
        assert not runs(WALLED, program)
        assert runs(WALLED, "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass")
        assert victim.poll() is None
        victim.kill()


@needs_bubblewrap
def test_no_file_of_this_machine_but_python(tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    file.write_text("kept")
    tmp_path.chmod(0o755)
    for path in (str(file), "/etc/passwd", __file__, "/proc/self/environ"):
        assert runs(LIMITED, f"open({path!r}).read()")
        assert not runs(WALLED, f"open({path!r}).read()")
    place = Path(os.__file__).parent
    for path in ("/longtail", "/dev/shm/longtail", f"{place}/longtail"):
        assert not runs(WALLED, f"open({path!r}, 'w')")
    remount = (
        "import ctypes; libc = ctypes.CDLL(None); attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)\n"
        "assert libc.syscall(442, -100, b'/', 0x8000, attributes, 32) == 0"
    )
    assert not runs(WALLED, remount)
    assert runs(WALLED, "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) != 0"), "no user namespace of its own"


@needs_bubblewrap
def test_its_files_are_few() -> None:
    fill = "for number in range(9): open(f'/tmp/{number}', 'wb').write(bytes(2**20 * 3))"
    assert runs(WALLED, fill.replace("range(9)", "range(3)"))
    assert not runs(WALLED, fill)


@needs_bubblewrap
def test_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_TOKEN", "secret")
    assert runs(WALLED, "import os; assert 'LONGTAIL_TOKEN' not in os.environ")


@needs_bubblewrap
def test_threads_but_no_new_processes() -> None:
    assert runs(WALLED, "import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()")
    for program in (
        "import os\nif os.fork() == 0: os._exit(0)",
        "import subprocess, sys; subprocess.run([sys.executable, '-V'], check=True)",
    ):
        assert runs(LIMITED, program)
        assert not runs(WALLED, program)


def test_without_bubblewrap_a_task_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "defpath", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apt-get install bubblewrap"):
        WALLED.check()


ROW: dict[str, object] = {"question": "Write f, which doubles.", "tests": ["assert f(2) == 4", "assert f(3) == 6"]}


def written(tmp_path: Path, *rows: dict[str, object], **settings: object) -> CodeConfig:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CodeConfig.model_validate({"path": path, "seconds": 60.0, "isolation": "namespaces" if INSTALLED else "limits"} | settings)


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
    ends: list[float] = []

    def run() -> None:
        assert runs(LIMITED, "import time; time.sleep(1)")
        ends.append(time.monotonic())

    threads = [Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 4
    assert min(after - before for before, after in pairwise(ends)) < 1, "one after the other, each would take a second"


def test_programs_find_nothing_of_ours() -> None:
    assert sys.modules["engine"]
    assert runs(LIMITED, "import sys; assert not any(name.startswith('engine') for name in sys.modules)")
