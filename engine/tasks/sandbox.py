"""Runs a Python program that nobody has read, by bubblewrap (``bwrap``; Linux, no root needed).

Inside there is no network, no socket that leads out, no other process and no new one, no environment, nothing of this machine's files but
Python and its packages, which cannot be written, and a /tmp of 16 MiB that goes with the program; and limits on time, memory and files.
"""

import os
import platform
import socket
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal, NamedTuple

from engine.errors import ConfigError
from engine.tasks.remote_calls import PASSED

Isolation = Literal["namespaces", "limits"]
PROCESS = Path(__file__).with_name("remote_calls.py")
PLACE = "/remote_calls.py"
SCRATCH_BYTES = 16 * 2**20
START_SECONDS = 5.0
"""What sandbox and interpreter may take on top of a program's own time, on a busy machine."""
CLONE3, CLONE_THREAD = 435, 0x10000
IO_URING_SETUP = 425
SOCKET_TYPE = 0xF
"""Without its flags."""


class Calls(NamedTuple):
    """Numbers of a machine's system calls. ``refused`` are those that make a process, those whose memory has no limit (shmget, msgget,
    semget, memfd_create, memfd_secret), io_setup, of whose rings a machine has few, and those of the kernel's keyring, which programs
    share with whoever started them."""

    audit: int
    clone: int
    socket: int
    socketpair: int
    refused: tuple[int, ...]


CALLS = {
    "x86_64": Calls(0xC000003E, 56, 41, 53, (57, 58, 29, 68, 64, 319, 447, 206, 248, 249, 250)),
    "aarch64": Calls(0xC00000B7, 220, 198, 199, (194, 186, 190, 279, 447, 0, 217, 218, 219)),
}


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
        with _file(b"") as verdict:  # no pipe, whose end would have to be read however much comes out of it
            try:
                children.append(self._start("program", program, to_program[0], to_tests[1], subprocess.DEVNULL))
                children.append(self._start("tests", tests, to_tests[0], to_program[1], verdict.fileno()))
                for end in (*to_program, *to_tests):
                    os.close(end)
                children[1].wait(self.seconds + START_SECONDS)
            except subprocess.TimeoutExpired:
                return False
            finally:
                for child in children:
                    if child.poll() is None:
                        os.killpg(child.pid, 9)  # and all it started
                    child.wait()
            verdict.seek(0)
            return verdict.read(len(PASSED) + 1) == PASSED

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
        with _file(text.encode("utf-8", "replace")) as source, _file(_call_filter()) as rules:
            walls, script = ([*_walls(), *_covers(), "--seccomp", str(rules.fileno())], PLACE) if walled else ([], str(PROCESS))
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
def _bound() -> tuple[str, ...]:
    """What programs see of this machine."""
    libraries = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
    prefixes = (sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.base_prefix))
    python = (os.path.realpath(sys.executable), *(f"{prefix}/{sub}" for prefix in prefixes for sub in ("lib", "lib64")), *_packages())
    return (*libraries, *python)


@cache
def _walls() -> tuple[str, ...]:
    return (
        *("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
        *("--die-with-parent", "--clearenv", "--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", "/tmp"),
        *(word for path in _bound() for word in ("--ro-bind-try", path, path)),
        *("--ro-bind", str(PROCESS), PLACE, "--remount-ro", "/", "--chdir", "/tmp"),
    )


def _covers() -> tuple[str, ...]:
    """Nothing in the place of each named pipe: also where nothing can be written, one leads to whoever has it open outside."""
    return tuple(word for path in _specials() if os.path.lexists(path) for word in ("--ro-bind", os.devnull, path))


@cache
def _specials() -> tuple[str, ...]:
    """What is neither a file nor a folder in what programs see, as of the first time: to look for it takes longer than a program."""
    found: dict[str, list[str]] = {}
    for path in map(os.path.realpath, _bound()):
        if path not in found:
            found[path] = [os.path.relpath(special, path) for special in _specials_below(path)]
    return tuple(f"{path}/{special}" for path in _bound() for special in found[os.path.realpath(path)])


def _specials_below(folder: str) -> Iterator[str]:
    try:
        entries = [*os.scandir(folder)]
    except OSError:  # a file, or a folder that is not there or not ours to read
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _specials_below(entry.path)
        elif not entry.is_symlink() and not entry.is_file():
            yield entry.path


@cache
def _packages() -> tuple[str, ...]:
    """Where installed packages lie, which programs may use."""
    return tuple(sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))


@cache
def _call_filter() -> bytes:
    """A seccomp filter: threads only (a limit on processes would not hold for root), and no memory beside the process's own. Sockets are of
    the sandbox's own network only: a folder that cannot be written still leads to the unix sockets in it, those of pairs without a
    connection included, a vsock out of a virtual machine, and a ring makes sockets that no filter sees."""
    calls = CALLS[platform.machine()]
    allow, refuse, unknown = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x00050000 | 38)
    load, equal, at_least, has, mask = 0x20, 0x15, 0x35, 0x45, 0x54
    number, machine, first, second = 0, 4, 16, 24
    steps = [
        (load, 0, 0, machine),
        (equal, 1, 0, calls.audit),
        refuse,
        (load, 0, 0, number),
        (at_least, 0, 1, 0x40000000),  # the x32 calls, under other numbers
        refuse,
    ]
    cases = {
        CLONE3: [unknown],  # then libc uses clone, whose flags can be seen here
        **{call: [refuse] for call in (IO_URING_SETUP, *calls.refused)},
        calls.socket: [(load, 0, 0, first), (equal, 1, 0, socket.AF_INET), (equal, 0, 1, socket.AF_INET6), allow, refuse],
        calls.socketpair: [(load, 0, 0, second), (mask, 0, 0, SOCKET_TYPE), (equal, 0, 1, socket.SOCK_STREAM), allow, refuse],
        calls.clone: [(load, 0, 0, first), (has, 0, 1, CLONE_THREAD), allow, refuse],
    }
    for call, then in cases.items():
        steps += [(equal, 0, len(then), call), *then]
    return b"".join(struct.pack("HBBI", *step) for step in (*steps, allow))


def _file(content: bytes) -> IO[bytes]:
    file = os.fdopen(os.memfd_create("sandbox"), "w+b")
    file.write(content)
    file.seek(0)
    return file
