"""Long-lived child processes: each leads a session of its own and writes to a log file."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from backend.jobs.engine.attempt_log import last_lines
from backend.jobs.engine.processes import kill_until_gone, living
from engine.errors import LongtailError
from longtail.schemas.credentials import private_folder

POLL_SECONDS = 0.1
LOG_BYTES = 10 * 2**20


class StackError(LongtailError):
    """A process of the stack does not start, or another stack is in the way."""

    code = "stack"


@dataclass
class ChildProcess:
    """One process of the stack. ``healthy`` says whether it serves yet; ``grace`` seconds lie between SIGTERM and SIGKILL."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    healthy: Callable[[], bool]
    grace: float = 10.0
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _quick_ends: int = field(default=0, init=False)

    def start(self) -> None:
        self._started = time.monotonic()
        private_folder(self.log.parent)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.log.parent,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} has not been started"
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self.process is None else self.process.poll()

    def count_end(self, steady_seconds: float) -> int:
        """Notes that it has ended; how often it has done so in a row without having been up for ``steady_seconds``."""
        steady = time.monotonic() - self._started > steady_seconds
        self._quick_ends = 1 if steady else self._quick_ends + 1
        return self._quick_ends

    def wait_until_healthy(self, deadline: float) -> None:
        """Until ``deadline`` on the monotonic clock; StackError with the end of its log if it ends or is late."""
        while self.exit_code is None:
            if self.healthy():
                return
            if time.monotonic() > deadline:
                raise StackError(f"{self.name} does not answer; {self.tail()}")
            time.sleep(POLL_SECONDS)
        raise StackError(f"{self.name} ended with code {self.exit_code} at its start; {self.tail()}")

    def stop(self) -> None:
        """Ends it and every process below it, sessions that these have made for themselves included."""
        if self.process is None:
            return
        sessions = sessions_below(self.pid)
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(self.grace)
        except subprocess.TimeoutExpired:
            sessions |= sessions_below(self.pid)
        finally:
            kill_sessions(sessions)
        self.process.wait()

    def tail(self, lines: int = 15) -> str:
        return f"the end of {self.log}:\n" + "\n".join(last_lines(self.log, lines))


def answers(url: str) -> Callable[[], bool]:
    def healthy() -> bool:
        try:
            return httpx.get(url, timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False

    return healthy


def sessions_below(pid: int) -> set[int]:
    """The sessions of ``pid`` and of its descendants."""
    everybody = list(living())
    family, sessions = {pid}, {pid}
    while found := [each for each in everybody if each.parent in family and each.pid not in family]:
        family |= {each.pid for each in found}
        sessions |= {each.session for each in found}
    return sessions


def kill_sessions(sessions: set[int]) -> None:
    kill_until_gone(lambda: members(sessions))


def members(sessions: set[int]) -> list[int]:
    """The living processes of these sessions."""
    return [each.pid for each in living() if each.session in sessions]
