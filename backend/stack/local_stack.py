"""Everything on one machine: API, job worker and dashboard as child processes on loopback. ``longtail up`` runs it."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Self

from backend import logs
from backend.database import Database
from backend.migrate import upgrade
from backend.settings import Settings
from backend.stack.child_process import ChildProcess, StackError, answers
from backend.stack.home_folder import child_environment, end_left_behind, lock_home, write_server_file
from backend.stack.ports import Port
from engine.interruption import interruptible
from longtail import Longtail
from longtail.identity import shown_address

DASHBOARD_PORT = 8501
START_SECONDS = 120.0
POLL_SECONDS = 0.25
RESTARTS = 5
STEADY_SECONDS = 60.0
NO_WAIT_FOR_STEPS = {"LONGTAIL_HANDOVER_STEPS": "0"}  # who presses Ctrl-C does not want to wait for a step

logger = logging.getLogger(__name__)


class Stack:
    """``with Stack(home=folder) as stack: Longtail(stack.url)``. All child processes are healthy inside the block and gone after it.

    A port of None is the usual one if it is free, and 0 any free one. StackError if one of them does not come up, a given port is
    taken, or another stack serves this home.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        dashboard: bool = True,
        port: int | None = None,
        dashboard_port: int | None = None,
        settings: Settings | None = None,
        say: Callable[[str], None] = logger.warning,
    ) -> None:
        base = settings or Settings()
        end_left_behind(base.model_copy(update={"home": (home or base.home).absolute()}))  # before its ports are asked for
        self._ports = [Port(base.host, port, base.port)]
        self.settings = base.model_copy(update={"home": (home or base.home).absolute(), "port": self._ports[0].number})
        self.url = f"http://{base.host}:{self.settings.port}"
        self.dashboard_url = None
        if dashboard:
            self._ports.append(Port(base.host, dashboard_port, DASHBOARD_PORT))
            self.dashboard_url = f"http://{base.host}:{self._ports[1].number}"
        self._say = say
        self._children: list[ChildProcess] = []
        self._stopping = threading.Event()
        self._failure: StackError | None = None
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            for port in self._ports:
                resources.callback(port.release)
            resources.enter_context(lock_home(self.settings))
            with closing(Database(self.settings.database)) as database:
                upgrade(database)
            self._children = self._make_children()
            for child in self._children:
                resources.callback(child.stop)
                child.start()
            self._announce()
            deadline = time.monotonic() + START_SECONDS
            for child in self._children:
                child.wait_until_healthy(deadline)
            supervisor = threading.Thread(target=self._supervise, name="supervisor")
            supervisor.start()
            resources.callback(supervisor.join)
            resources.callback(self._stopping.set)
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def token(self) -> str:
        """The admin's, made at the first start of this home; empty if it has been put away."""
        file = self.settings.token_file
        return file.read_text(encoding="utf-8").strip() if file.is_file() else ""

    def wait(self) -> None:
        """Blocks until a child process cannot be kept alive; StackError says which."""
        self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    def _make_children(self) -> list[ChildProcess]:
        variables = child_environment(self.settings) | {"LONGTAIL_URL": self.url}
        logs = self.settings.home / "logs"

        def child(name: str, healthy: str, *command: str) -> ChildProcess:
            return ChildProcess(name, (sys.executable, "-m", *command), variables, logs / f"{name}.log", answers(healthy))

        children = [
            child("api", f"{self.url}/healthz", "backend.api"),
            child("worker", f"{self.url}/readyz", "backend.jobs.worker"),
        ]
        children[1].environment = variables | NO_WAIT_FOR_STEPS
        children[1].grace += self.settings.handover_seconds + self.settings.grace_seconds
        if self.dashboard_url is not None:
            host, _, port = self.dashboard_url.removeprefix("http://").rpartition(":")
            children.append(child("dashboard", f"{self.dashboard_url}/_stcore/health", "dashboard", "--address", host, "--port", port))
        return children

    def _announce(self) -> None:
        write_server_file(self.settings, self.url, self.dashboard_url, self._children)

    def _supervise(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            for child in self._children:
                if child.exit_code is not None:
                    self._revive(child)

    def _revive(self, child: ChildProcess) -> None:
        """Starts a child process that has ended again, ever later; gives the stack up if it does not stay up."""
        quick_ends = child.count_end(STEADY_SECONDS)
        if quick_ends > RESTARTS:
            self._failure = StackError(f"{child.name} ends again and again, now with code {child.exit_code}; {child.tail()}")
            self._stopping.set()
            return
        pause = 2.0 ** (quick_ends - 2)
        self._say(f"{child.name} ended with code {child.exit_code}; starting it again in {pause:g} s ({quick_ends} of {RESTARTS})")
        if not self._stopping.wait(pause):
            child.stop()
            child.start()
            self._announce()


def main(port: int | None = None, dashboard_port: int | None = None, dashboard: bool = True) -> None:
    """Serves until Ctrl-C or SIGTERM; StackError as in Stack."""
    logs.configure(Settings())
    with suppress(KeyboardInterrupt), interruptible(), Stack(dashboard=dashboard, port=port, dashboard_port=dashboard_port) as stack:
        with Longtail(stack.url, stack.token) as client:
            print(f"API        {stack.url}\nDashboard  {shown_address(client, stack.dashboard_url)}\nCtrl-C stops.", flush=True)
        stack.wait()
