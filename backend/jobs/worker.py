"""The worker process: one thread per run. Every few seconds it looks for queued runs and lost attempts; a message makes it look at once,
but none has to arrive."""

import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from celery import Celery, signals
from kombu.exceptions import OperationalError
from sqlalchemy import delete

from backend import logs
from backend.database import NO_ANSWER, Database, affected, upsert
from backend.jobs.celery import TASK, make_celery, make_folders, queue
from backend.jobs.engine.environment_record import environment_record
from backend.jobs.engine.gpu_names import offered_gpus
from backend.jobs.engine.processes import machine, start_time
from backend.jobs.engine.supervisor import Supervisor
from backend.jobs.maintenance.artifact_importer import ArtifactImporter
from backend.jobs.maintenance.home_chores import keep_doing
from backend.jobs.maintenance.lost_attempts import Reaper
from backend.jobs.maintenance.retention import apply_retention
from backend.models import Worker, new_id
from backend.services.queue.scheduling import QueueLimits, next_fitting
from backend.services.runs.attempts import Claim, Outcome, claim_next, settle
from backend.settings import Settings
from backend.start_faults import end, told
from backend.storage.private_home import tighten_home
from engine.errors import CheckpointError
from longtail.durations import DAY_SECONDS

FORGET_SECONDS = DAY_SECONDS
CELERYS_OWN = {"pool_cls": "solo", "quiet": True, "without_gossip": True, "without_mingle": True, "without_heartbeat": True}

logger = logging.getLogger(__name__)


class JobWorker:
    def __init__(self, settings: Settings) -> None:
        tighten_home(settings)
        self._settings = settings
        self._database = Database(settings.database)
        self._celery: Celery = make_celery(settings)
        self._wake = threading.Event()
        self._celery.task(name=TASK)(self._wake.set)
        self._stopping = threading.Event()
        self._reaper = Reaper(self._database, settings)
        self._artifact_importer = ArtifactImporter(self._database, settings, self._stopping)
        self._looking = threading.Thread(target=self._look_again_and_again, name="looking for runs")
        self._threads: list[threading.Thread] = []
        self._unfit_until = 0.0
        self._gpus = offered_gpus(settings.gpus, os.environ)
        self._id = new_id()
        self._started = time.time()

    def main(self) -> None:
        """Until SIGTERM or SIGINT, which stop the engines and give their runs back to the queue."""
        signals.setup_logging.connect(self._keep_logging)
        signals.worker_shutting_down.connect(self._shut_down)
        signals.worker_ready.connect(self._begin)
        environment_record()  # kept from now on: asking while a lease runs would eat into it
        self._reach_broker()
        with told():
            self._show_life()
        try:
            while not self._stopping.is_set():
                self._listen()
        finally:
            self._shut_down()
            for thread in (self._looking, *self._threads):
                if thread.is_alive():
                    thread.join()

    def _reach_broker(self) -> None:
        """A worker that cannot hear must not count as one that was seen."""
        try:
            with self._celery.connection_for_read() as broker:
                broker.ensure_connection(max_retries=3)
        except OperationalError as error:
            end(f"the message broker does not answer: {error}; see LONGTAIL_BROKER_URL")

    def _listen(self) -> None:
        """Until this worker shuts down, or Celery gives up over an unreadable message or a broker's folder that is gone: then anew."""
        make_folders(self._settings)
        queues = list(map(queue, ("", *self._settings.labels)))
        self._celery.Worker(queues=queues, **CELERYS_OWN).start()
        self._stopping.wait(self._settings.sweep_seconds)

    def _look(self) -> None:
        """Takes queued runs until there is no slot or no run left."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        while len(self._threads) < self._settings.concurrency and (claimed := self._claim()):
            self._threads.append(threading.Thread(target=self._carry, args=claimed))
            self._threads[-1].start()

    def _claim(self) -> tuple[Claim, float] | None:
        """With the time at which its lease began. Only reads where there is none to take."""
        limits = QueueLimits.of(self._settings)
        with self._database.read() as session:
            waiting = next_fitting(session, self._settings.labels, self._gpus, limits, time.time())
        if not waiting or self._stopping.is_set() or not self._is_fit():
            return None
        began = time.monotonic()
        with self._database.write() as session:
            claimed = claim_next(session, self._id, self._settings.labels, limits, self._settings.lease_seconds, self._gpus)
        return (claimed, began) if claimed else None

    def _carry(self, claimed: Claim, began: float) -> None:
        with logs.about(run_id=claimed.run_id, attempt=claimed.attempt):
            logger.info("run %s: attempt %d begins", claimed.run_id, claimed.attempt)
            try:
                state = Supervisor(self._database, self._settings, claimed, began, self._stopping).run()
                logger.info("run %s: attempt %d ended; the run is %s", claimed.run_id, claimed.attempt, state or "with somebody else")
            except Exception as error:  # the run must end with a reason, not hang until its lease runs out
                logger.exception("run %s: the supervisor failed", claimed.run_id)
                self._fail(claimed, error)
        self._wake.set()

    def _is_fit(self) -> bool:
        return time.monotonic() >= self._unfit_until and self._has_space()

    def _has_space(self) -> bool:
        """A worker with a full disk would take one run after the other, and fail them all."""
        free = shutil.disk_usage(self._settings.home).free
        if free < self._settings.least_free_bytes:
            logger.error("%s has only %d bytes left; taking no run (LONGTAIL_LEAST_FREE_BYTES)", self._settings.home, free)
        return free >= self._settings.least_free_bytes

    def _fail(self, claimed: Claim, error: Exception) -> None:
        """A machine that cannot, or lacks the run's checkpoints, is not the run's fault: for a while somebody else may try, or this one
        would use up the run's retries. Nor is a database that does not answer."""
        unfit = isinstance(error, (OSError, CheckpointError))
        if unfit:
            self._unfit_until = time.monotonic() + self._settings.lease_seconds
        state: Literal["lost", "failed"] = "lost" if unfit or isinstance(error, NO_ANSWER) else "failed"
        reason = (str(error), error.code) if isinstance(error, CheckpointError) else (f"the job supervisor failed: {error}", "supervisor")
        outcome = Outcome(state, error=reason[0], error_code=reason[1])
        with self._database.write() as session:
            settle(session, claimed.run_id, claimed.attempt, outcome, self._settings.max_retries, self._settings.retry_seconds)

    def _show_life(self) -> None:
        """Also after a jump of the clock for which the others have forgotten this worker."""
        mine = {"host": socket.gethostname(), "pid": os.getpid(), "pid_started": start_time(os.getpid()), "machine": machine()}
        slots = self._settings.concurrency if self._is_fit() else 0
        offer = {"labels": list(self._settings.labels), "slots": slots, "gpus": dict(self._gpus)}
        row = {"id": self._id, "started_at": self._started, "seen_at": time.time()} | mine | offer
        with self._database.write() as session:
            upsert(session, Worker, [row])

    def _keep_house(self, *tasks: Callable[[], object]) -> None:
        while not self._stopping.is_set():
            for task in tasks:
                self._attempt(task)
            self._stopping.wait(self._settings.sweep_seconds)

    def _attempt(self, task: Callable[[], object]) -> None:
        try:
            task()
        except Exception:  # none may keep the worker from the others: without its signs of life its runs would be taken for lost
            logger.exception("housekeeping failed; it goes on")

    def _forget(self) -> None:
        with self._database.write() as session:
            affected(session, delete(Worker).where(Worker.seen_at < time.time() - FORGET_SECONDS))

    def _look_again_and_again(self) -> None:
        alive = self._settings.alive_file
        while not self._stopping.is_set():
            self._attempt(self._look)
            if alive:
                self._attempt(Path(alive).touch)
            self._wake.wait(self._settings.sweep_seconds)
            self._wake.clear()

    def _begin(self, **_: Any) -> None:
        """Takes runs only now, when Celery listens to signals: one that was taken before would not be handed over."""
        signals.worker_ready.disconnect(self._begin)
        self._looking.start()
        for name, tasks in {"signs of life": (self._show_life, self._forget), "reaper": (self._reaper.reap, self._wake.set)}.items():
            threading.Thread(target=self._keep_house, args=tasks, name=name, daemon=True).start()
        for name, work in {"artifacts": self._artifact_importer.look, "retention": self._tidy}.items():
            arguments = (name, work, self._settings, self._stopping)
            threading.Thread(target=keep_doing, args=arguments, name=name, daemon=True).start()

    def _tidy(self) -> None:
        apply_retention(self._database, self._settings)

    def _keep_logging(self, **_: Any) -> None:
        """Celery leaves logging as it is if somebody listens to this signal."""

    def _shut_down(self, **_: Any) -> None:
        self._stopping.set()
        self._wake.set()


def main() -> None:
    with told():
        settings = Settings()
        logs.configure(settings)
        worker = JobWorker(settings)
    worker.main()


if __name__ == "__main__":
    main()
