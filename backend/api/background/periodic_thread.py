"""A thread of an API process that does its work again and again, and at once when it is nudged."""

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class PeriodicThread:
    """A thread that does ``work``."""

    def __init__(self, name: str, work: Callable[[], object], pause_seconds: float) -> None:
        self._name, self._work, self._pause_seconds = name, work, pause_seconds
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._repeat, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        """Returns at once."""
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._stopping:
            try:
                self._work()
            except Exception:  # the database still knows what is due, and only this thread will look again
                logger.exception("%s failed; trying again in %s s", self._name, self._pause_seconds)
            self._wake.wait(self._pause_seconds)
            self._wake.clear()
