"""The API's side of the queue: a thread that rings for new runs at once, and again for those whose message got lost."""

import logging
import threading
from collections.abc import Callable

from celery import Celery

from backend.database import Database
from backend.jobs.outbox import ring_due

logger = logging.getLogger(__name__)


class Bell:
    """``chore``: what else has to be looked after every ``sweep_seconds``."""

    def __init__(self, database: Database, app: Celery, sweep_seconds: float, chore: Callable[[], object] = lambda: None) -> None:
        self._database, self._app, self._sweep_seconds = database, app, sweep_seconds
        self._chore = chore
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._sweep, name="bell", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ring(self) -> None:
        """Have a look at the outbox now. Never waits for the broker."""
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def _sweep(self) -> None:
        while not self._stopping:
            for action in (lambda: ring_due(self._database, self._app), self._chore):
                try:
                    action()
                except Exception:  # whatever fails, the database still knows what is due, and only this thread will do it
                    logger.exception("a sweep failed; trying again in %s s", self._sweep_seconds)
            self._wake.wait(self._sweep_seconds)
            self._wake.clear()
