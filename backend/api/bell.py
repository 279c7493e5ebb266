"""The API's side of the queue: a thread that rings for new runs at once, and again for those whose message got lost."""

from celery import Celery

from backend.api.chore import Chore
from backend.database import Database
from backend.jobs.outbox import ring_due


class Bell(Chore):
    def __init__(self, database: Database, app: Celery, sweep_seconds: float) -> None:
        super().__init__("ringing", lambda: ring_due(database, app), sweep_seconds)

    def ring(self) -> None:
        """Have a look at the outbox now. Never waits for the broker."""
        self.nudge()
