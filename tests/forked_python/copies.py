"""What a copy of the server does to be the process that was asked for."""

import atexit
import contextlib
import ctypes
import os
import resource
import runpy
import secrets
import signal
import sys
import tempfile
import threading
import types
from typing import NoReturn, TypedDict

import psutil

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Order(TypedDict):
    """A process: ``python arguments`` with these surroundings. ``parent``: whom it takes for its parent; ``leads``: whether it leads a
    group of processes; ``limits``: soft and hard ones by their numbers."""

    arguments: list[str]
    unbuffered: bool
    environment: dict[str, str]
    folder: str
    files: list[int]
    umask: int
    parent: int
    ignored: list[int]
    blocked: list[int]
    limits: dict[str, tuple[int, int]]
    processors: list[int]
    leads: bool


def become(order: Order, files: list[int], path: list[str]) -> NoReturn:
    """Runs the program of ``order`` and ends as the interpreter would. ``files``: its open ones, which get their numbers here;
    ``path``: where modules are, beside what the program's environment names."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    _take_files(files, order["files"])
    _take_surroundings(order)
    _take_parent(order["parent"])
    _renew()
    more = [place for place in order["environment"].get("PYTHONPATH", "").split(os.pathsep) if place]
    code, interrupted = 1, False
    try:
        _take_signals(order["ignored"], order["blocked"])
        _run(order["arguments"], [*more, *path])
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush()
        if interrupted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


def _take_files(files: list[int], numbers: list[int]) -> None:
    """``files`` get ``numbers``; first they go where none of those is."""
    above = 1000
    for place, file in enumerate(files):
        os.dup2(file, above + place)
        os.close(file)
    for place, number in enumerate(numbers):
        os.dup2(above + place, number)
        os.close(above + place)


def _take_surroundings(order: Order) -> None:
    os.chdir(order["folder"])
    os.umask(order["umask"])
    os.sched_setaffinity(0, order["processors"])
    for number, limits in order["limits"].items():
        resource.setrlimit(int(number), limits)
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["unbuffered"] or order["environment"].get("PYTHONUNBUFFERED"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]


def _take_parent(parent: int) -> None:
    """Ray's processes look whether their parent is still the same."""
    true = psutil.Process.parent
    psutil.Process.parent = lambda self: psutil.Process(parent) if self.pid == os.getpid() else true(self)
    os.getppid = lambda: parent if psutil.pid_exists(parent) else 1


def _renew() -> None:
    """What each process has of its own from the time when it is imported."""
    tempfile.tempdir = None
    if session := sys.modules.get("engine.cluster.ray_session"):
        session.TOKEN = secrets.token_hex(32)  # type: ignore[attr-defined]


def _take_signals(ignored: list[int], blocked: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _run(arguments: list[str], path: list[str]) -> None:
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(program).update(__builtins__=__builtins__, __annotations__={})
    if arguments[0] == "-m":
        sys.path[:] = [os.getcwd(), *path]
        sys.argv[:] = arguments[1:]
        sys.modules.pop(arguments[1], None)
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
    elif arguments[0] == "-c":
        sys.path[:] = ["", *path]
        sys.argv[:] = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), vars(program))
    else:
        sys.path[:] = [os.path.dirname(os.path.realpath(arguments[0])), *path]
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
