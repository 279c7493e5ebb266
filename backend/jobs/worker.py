"""The worker process: one thread per run. It answers doorbells, and every few seconds looks by itself for runs, lost messages and
lost attempts: a bell makes a run start sooner, but none has to be heard."""

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from celery import Celery, signals
from sqlalchemy import delete

from backend import logs
from backend.database import Database, upsert
from backend.jobs.celery import TASK, make_celery, queue
from backend.jobs.keeper import Keeper
from backend.jobs.outbox import hurry, ring_due
from backend.jobs.processes import machine, start_time
from backend.jobs.reaper import Reaper
from backend.jobs.retention import tidy
from backend.jobs.supervisor import Supervisor
from backend.jobs.surroundings import surroundings
from backend.models import Worker, new_id
from backend.services.attempts import Claim, Outcome, claim_next, settle
from backend.services.lifecycle import affected
from backend.services.queue import Limits, next_run
from backend.settings import Settings

FORGET_SECONDS = 24 * 3600
CELERYS_OWN = ["--pool=threads", "--without-gossip", "--without-mingle", "--without-heartbeat"]

logger = logging.getLogger(__name__)


class JobWorker:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._database = Database(settings.database)
        self._celery: Celery = make_celery(settings)
        self._celery.task(name=TASK)(self.answer)
        self._stopping = threading.Event()
        self._reaper = Reaper(self._database, settings)
        self._keeper = Keeper(self._database, settings, self._stopping)
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._threads: list[threading.Thread] = []
        self._unfit_until = 0.0
        self._id = new_id()
        self._started = time.time()

    def main(self) -> None:
        """Until SIGTERM or SIGINT, which stop the engines and give their runs back to the queue."""
        signals.setup_logging.connect(self._keep_logging)
        signals.worker_shutting_down.connect(self._shut_down)
        signals.worker_ready.connect(self._begin)
        surroundings()  # kept from now on: asking while a lease runs would eat into it
        with self._celery.connection_for_read() as broker:
            broker.ensure_connection(max_retries=3)  # a worker that cannot hear must not count as one that was seen
        self._show_life()
        hurry(self._database)
        queues = ",".join(map(queue, ("", *self._settings.labels)))
        options = [*CELERYS_OWN, f"--concurrency={self._settings.concurrency}", f"--queues={queues}"]
        try:
            self._celery.worker_main(["--quiet", "worker", *options])
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()

    def answer(self, _run_id: str = "") -> None:
        """One doorbell: carries the runs whose turn it is, whichever rang, until there is none. So a lost or doubled message is no harm."""
        if self._slots.acquire(blocking=False):
            try:
                self._work()
            finally:
                self._slots.release()

    def _work(self) -> None:
        while not self._stopping.is_set() and self._is_fit():
            began = time.monotonic()
            with self._database.write() as session:
                claimed = claim_next(session, self._id, self._settings.labels, Limits.of(self._settings), self._settings.lease_seconds)
            if claimed is None:
                return
            with logs.about(run_id=claimed.run_id, attempt=claimed.attempt):
                self._carry(claimed, began)

    def _carry(self, claimed: Claim, began: float) -> None:
        logger.info("run %s: attempt %d begins", claimed.run_id, claimed.attempt)
        try:
            state = Supervisor(self._database, self._settings, claimed, began, self._stopping).run()
            logger.info("run %s: attempt %d ended; the run is %s", claimed.run_id, claimed.attempt, state or "with somebody else")
        except Exception as error:  # the run must end with a reason, not hang until its lease runs out
            logger.exception("run %s: the supervisor failed", claimed.run_id)
            self._fail(claimed, error)

    def _is_fit(self) -> bool:
        return time.monotonic() >= self._unfit_until and self._has_space()

    def _has_space(self) -> bool:
        """A worker with a full disk would take one run after the other, and fail them all."""
        free = shutil.disk_usage(self._settings.home).free
        if free < self._settings.least_free_bytes:
            logger.error("%s has only %d bytes left; taking no run (LONGTAIL_LEAST_FREE_BYTES)", self._settings.home, free)
        return free >= self._settings.least_free_bytes

    def _fail(self, claimed: Claim, error: Exception) -> None:
        """A machine that cannot is not the run's fault: for a while somebody else may try, or this one would use up the run's retries."""
        state: Literal["lost", "failed"] = "failed"
        if isinstance(error, OSError):
            state, self._unfit_until = "lost", time.monotonic() + self._settings.lease_seconds
        outcome = Outcome(state, error=f"the job supervisor failed: {error}", error_code="supervisor")
        with self._database.write() as session:
            settle(session, claimed.run_id, claimed.attempt, outcome, self._settings.max_retries)

    def _show_life(self) -> None:
        """Also after a jump of the clock for which the others have forgotten this worker."""
        mine = {"host": socket.gethostname(), "pid": os.getpid(), "pid_started": start_time(os.getpid()), "machine": machine()}
        offer = {"labels": list(self._settings.labels), "slots": self._settings.concurrency if self._is_fit() else 0}
        row = {"id": self._id, "started_at": self._started, "seen_at": time.time()} | mine | offer
        with self._database.write() as session:
            upsert(session, Worker, [row])

    def _housekeep(self) -> None:
        while not self._stopping.is_set():
            for chore in (self._show_life, self._forget, self._reaper.reap, self._look, self._tidy, self._ring):
                self._attempt(chore)
            self._stopping.wait(self._settings.sweep_seconds)

    def _attempt(self, chore: Callable[[], object]) -> None:
        try:
            chore()
        except Exception:  # none may keep the worker from the others: without its signs of life its runs would be taken for lost
            logger.exception("housekeeping failed; it goes on")

    def _forget(self) -> None:
        with self._database.write() as session:
            affected(session, delete(Worker).where(Worker.seen_at < time.time() - FORGET_SECONDS))

    def _tidy(self) -> None:
        tidy(self._database, self._settings)

    def _ring(self) -> None:
        """Last, as a broker that is away may let us wait."""
        ring_due(self._database, self._celery)

    def _look(self) -> None:
        """Whether there is a run that no bell has told of."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        with self._database.read() as session:
            waiting = session.scalar(next_run(self._settings.labels, Limits.of(self._settings), time.time()))
        if waiting and self._is_fit() and len(self._threads) < self._settings.concurrency:
            self._threads.append(threading.Thread(target=self.answer))
            self._threads[-1].start()

    def _begin(self, **_: Any) -> None:
        """Takes runs only now, when Celery listens to signals: one that was taken before would not be handed over."""
        threading.Thread(target=self._housekeep, name="housekeeping", daemon=True).start()
        threading.Thread(target=self._keeper.main, name="keeper", daemon=True).start()

    def _keep_logging(self, **_: Any) -> None:
        """Celery leaves logging as it is if somebody listens to this signal."""

    def _shut_down(self, **_: Any) -> None:
        self._stopping.set()


def main() -> None:
    settings = Settings()
    logs.configure(settings)
    JobWorker(settings).main()


if __name__ == "__main__":
    main()
