"""math-verify in a child process. sympy can hang inside C code (9^9^9^9), where only the kernel can stop it.

``python -m engine.tasks.math_checker`` is the child: a JSON pair [expected, response] a line in, ``1`` or ``0`` a line out.
"""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import weakref
from subprocess import PIPE, Popen
from threading import Lock

CPU_SECONDS = 3
MEMORY_BYTES = 2 * 2**30


class Checker:
    """Compares answers; thread-safe. A comparison that exceeds CPU_SECONDS or MEMORY_BYTES counts as wrong."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: Popen[str] | None = None

    def equal(self, expected: str, response: str) -> bool:
        """Whether the last answer in ``response`` equals ``expected`` (both as math-verify reads them)."""
        with self._lock:
            if self._child is None or self._child.poll() is not None:
                self._child = _start()
                self._stop = weakref.finalize(self, self._child.communicate)  # closes the pipes, which ends it
            assert self._child.stdin
            self._child.stdin.write(json.dumps([expected, response]) + "\n")
            self._child.stdin.flush()
            verdict = _read(self._child)
            if verdict is None:
                self._stop()
            return verdict == "1"


def _start() -> Popen[str]:
    child = Popen([sys.executable, "-m", "engine.tasks.math_checker"], stdin=PIPE, stdout=PIPE, text=True)
    if not _read(child):
        raise subprocess.CalledProcessError(child.wait(), child.args)
    return child


def _read(child: Popen[str]) -> str | None:
    """A line of the child, None at its end."""
    assert child.stdout
    return child.stdout.readline().strip() or None


def _serve() -> None:
    """The child's loop. The profiling timer's default action ends the process, even while it computes in C."""
    from math_verify import parse, verify

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    print("ready", file=answers)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        gold, answer = (parse(text, parsing_timeout=None) for text in json.loads(line))
        right = bool(gold) and verify(gold, answer, timeout_seconds=None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(int(right), file=answers)


if __name__ == "__main__":
    _serve()
