"""What a copy of the server does to be the process that was asked for."""

import atexit
import contextlib
import os
import runpy
import signal
import sys
import threading
import traceback
from typing import NoReturn, TypedDict

import psutil


class Order(TypedDict):
    """A process: ``python arguments`` with these surroundings. ``parent``: whom it takes for its parent; ``leads``: whether it leads a
    group of processes."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    files: list[int]
    umask: int
    parent: int
    ignored: list[int]
    leads: bool


def become(order: Order, files: list[int], path: list[str]) -> NoReturn:
    """Runs the program of ``order`` and ends as the interpreter would. ``files``: its open ones, which get their numbers here;
    ``path``: where modules are, beside what the program's environment names."""
    os.setsid()
    _take_signals(order["ignored"])
    _take_files(files, order["files"])
    os.chdir(order["folder"])
    os.umask(order["umask"])
    _take_parent(order["parent"])
    os.environ.clear()
    os.environ.update(order["environment"])
    more = [place for place in order["environment"].get("PYTHONPATH", "").split(os.pathsep) if place]
    code = 1
    try:
        _run(order["arguments"], [*more, *path])
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except KeyboardInterrupt:
        traceback.print_exc()
        _flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        _flush()
        os._exit(code)


def _take_signals(ignored: list[int]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def _take_files(files: list[int], numbers: list[int]) -> None:
    """``files`` get ``numbers``; first they go where none of those is."""
    above = 1000
    for place, file in enumerate(files):
        os.dup2(file, above + place)
        os.close(file)
    for place, number in enumerate(numbers):
        os.dup2(above + place, number)
        os.close(above + place)


def _take_parent(parent: int) -> None:
    """Ray's processes look whether their parent is still the same."""
    true = psutil.Process.parent
    psutil.Process.parent = lambda self: psutil.Process(parent) if self.pid == os.getpid() else true(self)
    os.getppid = lambda: parent if psutil.pid_exists(parent) else 1


def _run(arguments: list[str], path: list[str]) -> None:
    if arguments[0] == "-m":
        sys.path[:] = [os.getcwd(), *path]
        sys.argv[:] = arguments[1:]
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
    elif arguments[0] == "-c":
        sys.path[:] = ["", *path]
        sys.argv[:] = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), vars(sys.modules["__main__"]))
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
