"""Takes runs from workers that are gone. A worker of this host is looked up; one elsewhere is judged by its lease."""

import logging
import socket
import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from backend.database import Database
from backend.jobs.processes import kill_all, start_time
from backend.models import Attempt, Run, Worker
from backend.schemas import RunState
from backend.services.attempts import Outcome, settle
from backend.services.lifecycle import ACTIVE
from backend.settings import Settings

logger = logging.getLogger(__name__)


def reap(database: Database, settings: Settings) -> dict[str, RunState | None]:
    """Settles the lost attempts; the new state of each run concerned."""
    with database.read() as session:
        suspects = [run.id for run in _active(session) if _loss(session, run, settings)]
    return {run_id: _take(database, settings, run_id) for run_id in suspects}


def _active(session: Session) -> list[Run]:
    return list(session.scalars(select(Run).where(Run.state.in_(ACTIVE))))


def _take(database: Database, settings: Settings, run_id: str) -> RunState | None:
    """Looks again under the lock, so that a worker that has just renewed its lease keeps its run."""
    with database.write() as session:
        run = session.get_one(Run, run_id, with_for_update=True)
        reason = _loss(session, run, settings) if run.state in ACTIVE else None
        if reason is None:
            return None
        logger.warning("run %s: attempt %d lost: %s", run.id, run.attempt, reason)
        _kill_leftovers(session, run)
        return settle(session, run.id, run.attempt, Outcome("lost", error=reason), settings.max_retries)


def _loss(session: Session, run: Run, settings: Settings) -> str | None:
    """Why the current attempt counts as lost; None while it does not. The margin lets a worker stop its engine by itself first."""
    worker = _worker(session, run)
    if worker is not None and _is_here(worker) and start_time(worker.pid) != worker.pid_started:
        return f"worker process {worker.pid} is gone"
    silent = time.time() - (run.lease_expires_at or 0.0)
    if silent > settings.lease_seconds / 2:
        return f"its worker has been silent for {silent + settings.lease_seconds:.0f} s"
    return None


def _worker(session: Session, run: Run) -> Worker | None:
    return session.scalar(
        select(Worker).join(Attempt, Attempt.worker_id == Worker.id).where(Attempt.run_id == run.id, Attempt.number == run.attempt)
    )


def _is_here(worker: Worker) -> bool:
    return worker.host == socket.gethostname()


def _kill_leftovers(session: Session, run: Run) -> None:
    """Ends what the attempt left on this host. Its session id counts only while no other process can have taken that number."""
    attempt = session.get_one(Attempt, (run.id, run.attempt))
    worker = _worker(session, run)
    here = worker is not None and _is_here(worker)
    ours = here and attempt.pid is not None and start_time(attempt.pid) in (None, attempt.pid_started)
    kill_all(run.id, run.attempt, attempt.pid if ours else None)
