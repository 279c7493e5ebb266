"""Takes runs from workers that are gone. One of this machine is looked up; one elsewhere is judged by its lease.

A lease counts by how long this process has seen it unrenewed on its own monotonic clock, so that no jump of any clock, and no time in
which the database did not answer, makes a living worker look dead. The margin above the lease is for ``kill_on_worker_loss`` to end the
engine first.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.database import Database
from backend.jobs.engine.processes import kill_all, machine, start_time
from backend.models import Attempt, Run, Worker
from backend.services.runs.attempts import Outcome, settle
from backend.services.runs.lifecycle import ACTIVE, CARRIED
from backend.settings import Settings
from longtail.schemas.runs import RunState

MARGIN = 1.5

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lost:
    """An attempt that counts as lost; ``session`` is that of its processes on this machine."""

    attempt: int
    reason: str
    session: int | None


class Reaper:
    """Lives as long as its process: it remembers since when it has seen each lease."""

    def __init__(self, database: Database, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._machine = machine()
        self._seen: dict[tuple[str, int, float | None], float] = {}

    def reap(self) -> dict[str, RunState | None]:
        """Settles the lost attempts; the new state of each run concerned."""
        self._database.end_frozen()  # it would keep its run's row from whoever takes the run
        with self._database.read() as session:
            active = list(session.scalars(select(Run).where(CARRIED)))
            now = self._clock()
            self._seen = {lease: self._seen.get(lease, now) for lease in map(_lease, active)}
            suspects = [run.id for run in active if self._loss(session, run)]
        return {run_id: self._take(run_id) for run_id in suspects}

    def _take(self, run_id: str) -> RunState | None:
        """Nobody else gets the run before what the attempt left on this machine has ended. No lock is held while that takes time."""
        lost = self._fence_off(run_id)
        if lost is None:
            return None
        logger.warning("run %s: attempt %d lost: %s", run_id, lost.attempt, lost.reason)
        kill_all(run_id, lost.attempt, lost.session)
        with self._database.write() as session:
            retries = (self._settings.max_retries, self._settings.retry_seconds)
            return settle(session, run_id, lost.attempt, Outcome("lost", error=lost.reason), *retries)

    def _fence_off(self, run_id: str) -> Lost | None:
        """Looks again under the lock, so that a worker that has just renewed its lease keeps its run; from now on it cannot renew it."""
        with self._database.write() as session:
            run = session.get_one(Run, run_id, with_for_update=True)
            reason = self._loss(session, run) if run.state in ACTIVE else None
            if reason is None:
                return None
            run.lease_expires_at = None
            return Lost(run.attempt, reason, self._session_here(session, run))

    def _loss(self, session: Session, run: Run) -> str | None:
        """Why the current attempt counts as lost; None while it does not."""
        worker = _worker(session, run)
        if worker is not None and worker.machine == self._machine and start_time(worker.pid) != worker.pid_started:
            return f"worker process {worker.pid} is gone"
        now = self._clock()
        silent = now - self._seen.get(_lease(run), now)
        if silent > MARGIN * self._settings.lease_seconds:
            return f"its worker has been silent for {silent:.0f} s"
        return None

    def _session_here(self, session: Session, run: Run) -> int | None:
        """The attempt's session id, if it is of this machine, and no other process can have taken that number."""
        attempt = session.get_one(Attempt, (run.id, run.attempt))
        worker = _worker(session, run)
        here = worker is not None and worker.machine == self._machine
        ours = here and attempt.pid is not None and start_time(attempt.pid) in (None, attempt.pid_started)
        return attempt.pid if ours else None


def _lease(run: Run) -> tuple[str, int, float | None]:
    return run.id, run.attempt, run.lease_expires_at


def _worker(session: Session, run: Run) -> Worker | None:
    return session.scalar(
        select(Worker).join(Attempt, Attempt.worker_id == Worker.id).where(Attempt.run_id == run.id, Attempt.number == run.attempt)
    )
