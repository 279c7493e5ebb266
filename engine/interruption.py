"""Being told to end."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import psutil

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130
"""The exit code of what was told to end."""
ALONE, TOLD = 2.0, 30.0
"""Seconds that a child has to end by itself, as Ctrl-C reaches it, too; and then, when it is told to, until it is killed."""


@contextmanager
def interruptible() -> Iterator[None]:
    """In the block the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt; later ones do not disturb the stopping.

    After it they are ignored until the process has ended: it is on its way out, and its exit code is its own.
    """
    interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        for number in heeded:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    heeded = [number for number in INTERRUPTS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        if not interrupted:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_child(command: Sequence[str], **options: Any) -> tuple[int, str]:
    """Exit code, and what is read of the output, of a process that does not outlive this one: who is told to end tells it, too.
    ``options`` as of ``subprocess.Popen``. KeyboardInterrupt once it has ended."""
    with subprocess.Popen(command, **options) as process:
        try:
            said = "".join(filter(None, process.communicate()))
        except KeyboardInterrupt:
            for seconds, end in ((ALONE, process.terminate), (TOLD, lambda: _kill_family(process.pid))):
                try:
                    process.communicate(timeout=seconds)
                except subprocess.TimeoutExpired:
                    end()
            process.wait()
            raise
    return process.returncode, said


def _kill_family(pid: int) -> None:
    """It may be waiting for children of its own."""
    process = psutil.Process(pid)
    for member in [*process.children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):
            member.kill()
