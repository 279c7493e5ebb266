"""Finds and ends the processes of an engine, however they have detached themselves. Reads Linux's /proc."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
MARK = "LONGTAIL_ATTEMPT"
GONE_SECONDS = 5.0


def start_time(pid: int) -> int | None:
    """Clock ticks since boot at which ``pid`` started; None if no such process lives. With the pid it names a process for good."""
    status = _status(pid)
    return status and status.started


def attempt_variables(run_id: str, attempt: int) -> dict[str, str]:
    """Environment by which an attempt's processes are known, also those that have left its session."""
    return {"LONGTAIL_RUN_ID": run_id, MARK: f"{run_id}.{attempt}"}


def attempt_here() -> tuple[str, int]:
    """The attempt that this process belongs to."""
    run_id, _, attempt = os.environ[MARK].rpartition(".")
    return run_id, int(attempt)


def machine() -> str:
    """Names what process ids refer to: this boot of this kernel, and the namespace (containers of one host may share its name)."""
    return f"{boot()}/{(PROC / 'self/ns/pid').readlink()}"


def boot() -> str:
    """Names this boot of this host, also inside of its containers."""
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def processes_of_attempt(run_id: str, attempt: int, session: int | None) -> set[int]:
    """Living processes of ``session``, and those that inherited the environment of the attempt."""
    inherited = f"{MARK}={run_id}.{attempt}".encode()
    others = (each for each in living() if each.pid != os.getpid())
    return {each.pid for each in others if each.session == session or inherited in _environment(each.pid)}


def stop(process: subprocess.Popen[bytes], run_id: str, attempt: int, grace_seconds: float) -> int:
    """SIGTERM and, after the grace time, SIGKILL for the engine, whose session ``process`` leads, and all that it left; its exit code."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_seconds)
    kill_all(run_id, attempt, process.pid)
    return process.wait()


def kill_all(run_id: str, attempt: int, session: int | None) -> None:
    kill_until_gone(lambda: processes_of_attempt(run_id, attempt, session))


def kill_until_gone(find: Callable[[], Collection[int]]) -> None:
    """SIGKILL until ``find`` finds none, or for GONE_SECONDS: a process in an uninterruptible sleep outlives that."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := find()) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


class Status(NamedTuple):
    pid: int
    parent: int
    session: int
    started: int


def living() -> Iterator[Status]:
    """Every process of this machine; a zombie does not live."""
    return filter(None, (_status(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit()))


def _status(pid: int) -> Status | None:
    """None if no such process lives; a zombie does not."""
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else Status(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _environment(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
