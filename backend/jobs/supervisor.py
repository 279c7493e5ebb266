"""Carries one attempt: starts the engine, feeds its events into SQL, keeps the lease, stops it, and settles how it ended."""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import yaml
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from backend.database import Database
from backend.ingest import Ingestor
from backend.jobs.processes import mark, start_time, stop
from backend.models import Attempt, Run
from backend.schemas import RunState
from backend.services.attempts import Claim, LeaseLostError, Outcome, note, renew, settle
from backend.settings import Settings

T = TypeVar("T")
USER_ERROR = 2
RESUMABLE = 75
LOG_TAIL_LINES = 40

logger = logging.getLogger(__name__)


class Supervisor:
    """``stopping`` makes it hand the run back. While the database does not answer it goes on trying, but never past its lease."""

    def __init__(self, database: Database, settings: Settings, claim: Claim, stopping: threading.Event) -> None:
        self._database, self._settings, self._claim, self._stopping = database, settings, claim, stopping
        self._folder = settings.run_folder(claim.run_id)
        self._log = self._folder / f"attempt_{claim.attempt}.log"
        self._ingestor = Ingestor(database, claim.run_id, claim.attempt, self._folder / "events.jsonl")
        self._renewed = time.monotonic()

    def run(self) -> RunState | None:
        """The run's state after this attempt; None if the attempt was taken away."""
        try:
            with self._engine() as engine:
                self._patiently(lambda: self._introduce(engine.pid))
                interruption = self._watch(engine)
            self._patiently(self._ingestor.drain)
            outcome = self._outcome(interruption, engine.returncode)
            return self._patiently(lambda: self._settle(outcome))
        except LeaseLostError:
            logger.warning("run %s: attempt %d was taken away", self._claim.run_id, self._claim.attempt)
            return None

    @contextmanager
    def _engine(self) -> Iterator[subprocess.Popen[bytes]]:
        """The engine in a session of its own; none of its processes outlives the block."""
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._claim.config, sort_keys=False), encoding="utf-8")
        resume = ["--resume"] if self._claim.attempt > 1 else []
        command = [*self._settings.engine_command, "run", str(config), "--out", str(self._folder), *resume]
        environment = os.environ | mark(self._claim.run_id, self._claim.attempt)
        with self._log.open("wb") as log:
            engine = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        try:
            yield engine
        finally:
            stop(engine, self._claim.run_id, self._claim.attempt, self._settings.grace_seconds)

    def _introduce(self, pid: int) -> None:
        with self._database.write() as session:
            attempt = session.get_one(Attempt, (self._claim.run_id, self._claim.attempt))
            attempt.pid, attempt.pid_started = pid, start_time(pid)

    def _watch(self, engine: subprocess.Popen[bytes]) -> Literal["cancelled", "handed_over"] | None:
        """Until the engine ends (None) or has to be stopped (why)."""
        while engine.poll() is None:
            if self._patiently(self._tend):
                return "cancelled"
            if self._stopping.wait(self._settings.poll_seconds):
                return "handed_over"
        return None

    def _tend(self) -> bool:
        """One round: lease, events; True if the user wants the run cancelled."""
        now = time.monotonic()
        if now > self._renewed + self._settings.lease_seconds / 3:
            with self._database.write() as session:
                renew(session, self._claim, self._settings.lease_seconds)
            self._renewed = now
        self._ingestor.drain()
        with self._database.read() as session:
            return bool(session.scalar(select(Run.cancel_requested).where(Run.id == self._claim.run_id)))

    def _patiently(self, action: Callable[[], T]) -> T:
        while True:
            try:
                return action()
            except OperationalError:
                if time.monotonic() > self._renewed + self._settings.lease_seconds:
                    raise LeaseLostError from None
                logger.warning("run %s: the database does not answer", self._claim.run_id)
                time.sleep(self._settings.poll_seconds)

    def _outcome(self, interruption: Literal["cancelled", "handed_over"] | None, exit_code: int) -> Outcome:
        if interruption == "handed_over":
            return Outcome("handed_over", exit_code, "its worker shut down")
        if interruption == "cancelled":
            return Outcome("cancelled", exit_code)
        if exit_code < 0:
            return Outcome("lost", exit_code, f"the engine was killed by signal {-exit_code}")
        if exit_code == 0 and self._ingestor.finished:
            return Outcome("succeeded", exit_code)
        if exit_code == USER_ERROR and (said := self._ingestor.last_error):
            return Outcome("failed", exit_code, said.message, said.code)
        if exit_code == RESUMABLE and (said := self._ingestor.last_error):
            return Outcome("lost", exit_code, said.message, said.code)
        last = (_tail(self._log) or ["it printed nothing"])[-1]
        return Outcome("failed", exit_code, f"the engine broke off with exit code {exit_code}: {last}", "crash")

    def _settle(self, outcome: Outcome) -> RunState | None:
        with self._database.write() as session:
            state = settle(session, self._claim.run_id, self._claim.attempt, outcome, self._settings.max_retries)
            if outcome.error_code == "crash":
                note(session, self._claim.run_id, "error", "crash", "\n".join(_tail(self._log)))
            return state


def _tail(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if line.strip()][-LOG_TAIL_LINES:]
