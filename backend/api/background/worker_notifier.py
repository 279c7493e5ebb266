"""Tells workers of newly queued runs, so that they start at once and not only when a worker looks for runs the next time."""

from collections import deque

from celery import Celery

from backend.api.background.periodic_thread import PeriodicThread
from backend.jobs.celery import notify_workers
from longtail.schemas.runs import Run

MOST_WAITING = 1000


class WorkerNotifier(PeriodicThread):
    """Sends from a thread of its own, as a broker that is away lets it wait. What cannot be sent is dropped."""

    def __init__(self, broker: Celery, sweep_seconds: float) -> None:
        super().__init__("notifying workers", self._send, sweep_seconds)
        self._broker = broker
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)

    def notify(self, run: Run) -> None:
        """Of the run, if it is queued. Never waits."""
        if run.state == "queued":
            self._waiting.append(run.needs)
            self.nudge()

    def _send(self) -> None:
        while self._waiting:
            notify_workers(self._broker, self._waiting.popleft())
