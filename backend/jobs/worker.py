"""The worker process: answers doorbells, one thread per run, and looks after lost messages and lost attempts meanwhile."""

import logging
import os
import socket
import threading
import time
from typing import Any

from celery import Celery, signals
from sqlalchemy import delete, update

from backend.database import Database
from backend.jobs.celery import TASK, make_celery
from backend.jobs.outbox import hurry, ring_due
from backend.jobs.processes import start_time
from backend.jobs.reaper import reap
from backend.jobs.supervisor import Supervisor
from backend.models import Worker, new_id
from backend.services.attempts import Claim, Outcome, claim, settle
from backend.services.lifecycle import affected
from backend.settings import Settings

FORGET_SECONDS = 24 * 3600

logger = logging.getLogger(__name__)


class JobWorker:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database(settings.database)
        self._celery: Celery = make_celery(settings)
        self._celery.task(name=TASK)(self.answer)
        self._stopping = threading.Event()
        self._id = new_id()

    def main(self) -> None:
        """Until SIGTERM or SIGINT, which stop the engines and give their runs back to the queue."""
        signals.worker_shutting_down.connect(self._shut_down)
        with self._celery.connection_for_read() as broker:
            broker.ensure_connection(max_retries=3)  # a worker that cannot hear must not count as one that was seen
        self._register()
        hurry(self._database)
        housekeeping = threading.Thread(target=self._housekeep, name="housekeeping", daemon=True)
        housekeeping.start()
        options = ["--pool=threads", f"--concurrency={self._settings.concurrency}", "--without-gossip", "--without-mingle"]
        self._celery.worker_main(["--quiet", "worker", "--loglevel=WARNING", "--without-heartbeat", *options])

    def answer(self, run_id: str) -> None:
        """One doorbell. The run may be gone already: claimed by another message, or cancelled."""
        if self._stopping.is_set():
            return
        with self._database.write() as session:
            claimed = claim(session, run_id, self._id, self._settings.lease_seconds)
        if claimed is None:
            return
        try:
            Supervisor(self._database, self._settings, claimed, self._stopping).run()
        except Exception as error:  # the run must end with a reason, not hang until its lease runs out
            logger.exception("run %s: the supervisor failed", run_id)
            self._fail(claimed, error)

    def _fail(self, claimed: Claim, error: Exception) -> None:
        outcome = Outcome("failed", error=f"the job supervisor failed: {error}", error_code="supervisor")
        with self._database.write() as session:
            settle(session, claimed.run_id, claimed.attempt, outcome, self._settings.max_retries)

    def _register(self) -> None:
        started = start_time(os.getpid())
        with self._database.write() as session:
            session.add(Worker(id=self._id, host=socket.gethostname(), pid=os.getpid(), pid_started=started))

    def _housekeep(self) -> None:
        while not self._stopping.is_set():
            try:
                self._sweep()
            except Exception:  # one bad sweep must not end the worker's signs of life, or its runs would be taken for lost
                logger.exception("housekeeping failed; it goes on")
            self._stopping.wait(self._settings.sweep_seconds)

    def _sweep(self) -> None:
        now = time.time()
        with self._database.write() as session:
            affected(session, update(Worker).where(Worker.id == self._id).values(seen_at=now))
            affected(session, delete(Worker).where(Worker.seen_at < now - FORGET_SECONDS))
        reap(self._database, self._settings)
        ring_due(self._database, self._celery)

    def _shut_down(self, **_: Any) -> None:
        self._stopping.set()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    JobWorker(Settings()).main()


if __name__ == "__main__":
    main()
