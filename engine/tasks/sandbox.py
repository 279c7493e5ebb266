"""Runs a Python program that nobody has read, by bubblewrap (``bwrap``; Linux, no root needed).

Inside there is no network, no other process and no new one, no environment, nothing of this machine's files but Python and its packages,
which cannot be written, and a /tmp of 16 MiB that goes with the program; and limits on time, memory and files.
"""

import os
import platform
import struct
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal

from engine.errors import ConfigError
from engine.tasks.remote_calls import PASSED

Isolation = Literal["namespaces", "limits"]
PROCESS = Path(__file__).with_name("remote_calls.py")
PLACE = "/remote_calls.py"
SCRATCH_BYTES = 16 * 2**20
START_SECONDS = 5.0
"""What sandbox and interpreter may take on top of a program's own time, on a busy machine."""
SYSCALLS = {"x86_64": (0xC000003E, 56, (57, 58, 29, 319)), "aarch64": (0xC00000B7, 220, (194, 279))}
"""By machine: its audit number, clone, and what is refused: other calls that make a process, shmget and memfd_create, whose memory has no
limit."""
CLONE3, CLONE_THREAD = 435, 0x10000


@dataclass(frozen=True)
class Sandbox:
    """``seconds`` of time and ``megabytes`` of memory for each program. With ``isolation`` "limits" there are those alone, and the program
    may do whatever this user may, forge a verdict included."""

    seconds: float
    megabytes: int
    isolation: Isolation

    def passes(self, program: str, tests: str) -> bool:
        """Whether ``tests``, which use what ``program`` defines, came to their end without an exception. Each runs in a sandbox of its own,
        and only values pass between them (see ``remote_calls``)."""
        to_program, to_tests = os.pipe(), os.pipe()
        children = []
        try:
            children.append(self._start("program", program, to_program[0], to_tests[1], subprocess.DEVNULL))
            children.append(self._start("tests", tests, to_tests[0], to_program[1], subprocess.PIPE))
            for end in (*to_program, *to_tests):
                os.close(end)
            _, verdict = children[1].communicate(timeout=self.seconds + START_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            for child in children:
                if child.poll() is None:
                    os.killpg(child.pid, 9)  # and all it started
                child.communicate()
        return bool(verdict == PASSED)

    def check(self) -> None:
        """ConfigError, saying what to do, if this machine cannot keep programs apart like that."""
        try:
            possible = self.passes("", "")
        except FileNotFoundError:
            raise ConfigError("task.isolation: code tasks need bubblewrap, which is not installed: apt-get install bubblewrap") from None
        if not possible:
            raise ConfigError(
                "task.isolation: bubblewrap cannot keep programs apart here: this machine allows no user namespaces (the seccomp profile "
                "of a container, or the sysctl kernel.apparmor_restrict_unprivileged_userns), or its bwrap is older than 0.8; see to that, "
                "or set task.isolation to limits if programs may do what you may"
            )

    def _start(self, role: str, text: str, reads: int, writes: int, errors: int) -> "subprocess.Popen[bytes]":
        walled = self.isolation == "namespaces"
        with _file(text.encode("utf-8", "replace")) as source, _file(_no_processes()) as rules:
            walls, script = ([*_walls(), "--seccomp", str(rules.fileno())], PLACE) if walled else ([], str(PROCESS))
            arguments = (role, str(self.seconds), str(self.megabytes), str(source.fileno()), os.pathsep.join(_packages()))
            return subprocess.Popen(
                [*walls, os.path.realpath(sys.executable), "-I", "-S", "-B", script, *arguments],
                stdin=reads,
                stdout=writes,
                stderr=errors,
                pass_fds=(source.fileno(), rules.fileno()),
                env={"PATH": os.defpath},
                start_new_session=True,
                cwd="/",
            )


@cache
def _walls() -> tuple[str, ...]:
    libraries = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
    python = (sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.base_prefix), *_packages())
    return (
        *("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
        *("--die-with-parent", "--clearenv", "--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", "/tmp"),
        *(word for path in (*libraries, *python) for word in ("--ro-bind-try", path, path)),
        *("--ro-bind", str(PROCESS), PLACE, "--remount-ro", "/", "--chdir", "/tmp"),
    )


@cache
def _packages() -> tuple[str, ...]:
    """Where installed packages lie, which programs may use."""
    return tuple(sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))


@cache
def _no_processes() -> bytes:
    """A seccomp filter: threads only, and no memory beside the process's own. A limit on processes would not hold for root."""
    audit, clone, others = SYSCALLS[platform.machine()]
    allow, refuse, unknown = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x00050000 | 38)
    load, equal, at_least, has = 0x20, 0x15, 0x35, 0x45
    steps = [
        (load, 0, 0, 4),
        (equal, 1, 0, audit),
        refuse,
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # the x32 calls, under other numbers
        refuse,
        (equal, 0, 1, CLONE3),
        unknown,  # then libc uses clone, whose flags can be seen here
        *(step for call in others for step in ((equal, 0, 1, call), refuse)),
        (equal, 1, 0, clone),
        allow,
        (load, 0, 0, 16),
        (has, 0, 1, CLONE_THREAD),
        allow,
        refuse,
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _file(content: bytes) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("sandbox"), "w+b")
    file.write(content)
    file.seek(0)
    return file
