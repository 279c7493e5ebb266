"""Would a submitted run be carried out? Each check gives what is wrong and what to do, or None."""

import os
import shutil
import threading
import time
from collections.abc import Mapping

from celery import Celery
from kombu.exceptions import OperationalError
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from backend.database import Database
from backend.migrate import at_head
from backend.models import Worker
from backend.services.queue.scheduling import NOT_GENERATED
from backend.settings import Settings

WORKER_SEEN_SECONDS = 15.0
BROKER_SECONDS = 2.0
REMEMBERED_SECONDS = 5.0


class Readiness:
    """The database is asked every time, the broker every few seconds only: everybody may ask whether we are ready."""

    def __init__(self, database: Database, broker: Celery, settings: Settings) -> None:
        self._database, self._broker, self._settings = database, broker, settings
        self._lock = threading.Lock()
        self._broker_fault: str | None = None
        self._asked_at = -REMEMBERED_SECONDS
        self._seen_seconds = max(WORKER_SEEN_SECONDS, 4 * settings.sweep_seconds)

    def faults(self) -> Mapping[str, str | None]:
        """What is wrong, by check."""
        return self._of_database() | {"broker": self._remembered_broker(), "disk": self._disk()}

    def _of_database(self) -> dict[str, str | None]:
        """While it does not answer, or is not of this version, nothing is said of what it holds."""
        try:
            if not at_head(self._database):
                return {"database": None, "migrations": "the database is not of this version; run: python -m backend.migrate"}
            with self._database.read() as session:
                seen_at = session.scalar(select(func.max(Worker.seen_at)).where(NOT_GENERATED))
        except SQLAlchemyError as error:
            return {"database": f"the database does not answer ({type(error).__name__}); see that it runs, and LONGTAIL_DATABASE_URL"}
        return {"database": None, "migrations": None, "worker": self._worker(seen_at)}

    def _worker(self, seen_at: float | None) -> str | None:
        if seen_at is not None and seen_at >= time.time() - self._seen_seconds:
            return None
        return f"no job worker was seen in the last {self._seen_seconds:.0f} s; start one: python -m backend.jobs.worker"

    def _remembered_broker(self) -> str | None:
        """Whoever comes while another one asks gets the answer before: a broker that is away must not hold up many requests."""
        if time.monotonic() >= self._asked_at + REMEMBERED_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._broker_fault, self._asked_at = self._ask_broker(), time.monotonic()
            finally:
                self._lock.release()
        return self._broker_fault

    def _ask_broker(self) -> str | None:
        if not self._settings.broker_url:
            folder = self._settings.home
            return None if os.access(folder, os.W_OK) else f"{folder}, which holds the messages to workers, cannot be written to"
        try:
            with self._broker.connection_for_write(connect_timeout=BROKER_SECONDS) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_SECONDS)
        except OperationalError:
            return "the message broker does not answer, so runs start late; see that it runs, and LONGTAIL_BROKER_URL"
        return None

    def _disk(self) -> str | None:
        least = self._settings.least_free_bytes
        try:
            free = shutil.disk_usage(self._settings.home).free
        except OSError as error:
            return f"{self._settings.home} is not there ({error.strerror}); see LONGTAIL_HOME"
        if free >= least:
            return None
        return f"{self._settings.home} has {free} bytes left, less than {least} (LONGTAIL_LEAST_FREE_BYTES); delete runs or add space"
