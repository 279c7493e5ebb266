"""Runs a Python program that nobody has read.

In namespaces of its own (Linux, no root needed): no network, no other processes, every file read-only but for a small scratch folder (its
working folder, mostly /tmp) that goes with it, no environment, and no rights to change any of that; with limits on time, memory and
files. ``cell`` is what runs inside before the program does.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Literal

from engine.errors import ConfigError

Isolation = Literal["namespaces", "limits"]
CELL = Path(__file__).with_name("cell.py")
NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--mount", "--ipc", "--fork", "--kill-child")
START_SECONDS = 5.0
"""What namespaces and interpreter may take on top of a program's own time, on a busy machine."""


@dataclass(frozen=True)
class Sandbox:
    """``seconds`` of time and ``megabytes`` of memory for each program. With ``isolation`` "limits" there are those alone, and the program
    may do whatever this user may."""

    seconds: float
    megabytes: int
    isolation: Isolation

    def passes(self, program: str) -> bool:
        """Whether ``program`` ran to its end without an exception. A program that leaves early (``sys.exit``) does not pass."""
        word = token_hex(16)
        arguments = (str(self.seconds), str(self.megabytes), self.isolation, word)
        walls = NAMESPACES if self.isolation == "namespaces" else ()
        child = subprocess.Popen(
            [*walls, sys.executable, "-I", "-B", str(CELL), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            start_new_session=True,
            cwd="/",
        )
        try:
            said, _ = child.communicate(program.encode("utf-8", "replace"), self.seconds + START_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(child)
        return said.endswith(word.encode())

    def check(self) -> None:
        """ConfigError, saying what to do, if this machine cannot keep programs apart like that."""
        if not self.passes("pass"):
            raise ConfigError(
                "task.isolation: this machine allows no user namespaces (the seccomp profile of a container, or the sysctl "
                "kernel.apparmor_restrict_unprivileged_userns); allow them, or set task.isolation to limits if programs may do what you may"
            )


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Ends the program and all it started."""
    if child.poll() is None:
        os.killpg(child.pid, 9)
    child.communicate()
