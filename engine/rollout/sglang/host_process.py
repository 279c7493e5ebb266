"""The host process of one engine: started with folder, ports and shared memory of its own, asked, and ended with all its children."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from engine.errors import LongtailError, WorkerLostError
from engine.rollout.sglang.host import SETTINGS
from engine.rollout.sglang.host_settings import VARIABLE, HostSettings
from engine.rollout.sglang.messages import Ask, Failed, Ready, Result
from engine.rollout.sglang.start_errors import cause

PREFIX = "longtail-sglang-"
START_SECONDS = 1800.0
"""Large models take minutes to load, and graphs of each draft length are recorded."""
LOG = "sglang.log"


class HostLostError(WorkerLostError):
    """The host, or a process of its, is gone."""


class HostProcess:
    """``settings``'s folder is made here, so that it is none of the caller's. ConfigError or ModelError says why it does not start."""

    def __init__(self, settings: HostSettings, environment: Mapping[str, str]) -> None:
        self.folder = Path(settings.folder)
        self.bucket = os.memfd_create("longtail-bucket")
        self._log = self.folder / LOG
        ports = dict(zip(("port", "nccl_port"), free_ports(2), strict=True))
        replace(settings, arguments=settings.arguments | ports).write(self.folder / SETTINGS)
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "engine.rollout.sglang.host", str(theirs.fileno()), str(self.bucket), str(self.folder)]
        own = {VARIABLE: str(self.folder / SETTINGS), "TMPDIR": str(self.folder), "PYTHONUNBUFFERED": "1"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment, **own},
                pass_fds=(theirs.fileno(), self.bucket),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        theirs.close()
        self._socket = Connection(ours.detach())
        self._sending = threading.Lock()
        self._asked = 0
        try:
            self.ready = self._await_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the host, which is its process group's, too."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """From any thread. HostLostError if the host is gone."""
        try:
            with self._sending:
                self._socket.send(message)
        except OSError:
            raise self._lost() from None

    def receive(self) -> Any:
        """The next message; HostLostError if the host is gone."""
        try:
            return self._socket.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def ask(self, method: str, **arguments: Any) -> Any:
        """The value of the host's ``method``. RuntimeError with what it said if it failed. Between generations only."""
        self._asked += 1
        self.send(Ask(self._asked, method, arguments))
        while True:
            answer = self.receive()
            if isinstance(answer, Result) and answer.number == self._asked:
                break
        if answer.error is not None:
            raise RuntimeError(f"SGLang failed to {method}: {answer.error}\n{answer.trace}")
        return answer.value

    def plugin(self, command: str, **arguments: Any) -> list[Any]:
        """What the plugin answers to ``command``, by rank."""
        values: list[Any] = self.ask("plugin", command=command, arguments=arguments)
        return values

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """Ends all processes and removes what they left; may be called again."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()
        with contextlib.suppress(OSError):
            os.close(self.bucket)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_ready(self) -> Ready:
        began = time.monotonic()
        while not wait([self._socket], timeout=1.0):
            if self._process.poll() is not None:
                raise self._failure("it ended")
            if time.monotonic() - began > START_SECONDS:
                raise self._failure(f"it was not ready after {START_SECONDS:.0f} s")
        try:
            message = self.receive()
        except HostLostError:
            self._process.wait()
            raise self._failure("it ended") from None
        if isinstance(message, Failed):
            raise self._failure(message.message, message.stage)
        assert isinstance(message, Ready)
        return message

    def _failure(self, message: str, stage: str = "start") -> LongtailError:
        return cause(stage, message, self.log())

    def _lost(self) -> HostLostError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        return HostLostError(f"the SGLang process ended with code {self._process.poll()}: {self.log()[-2000:]}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
