"""The client's methods about workers and the queue."""

from longtail.schemas.queue import Queue as QueueReply
from longtail.schemas.queue import WorkerPage
from longtail.transport import Transport


class Queue(Transport):
    def workers(self, limit: int = 50, cursor: str | None = None) -> WorkerPage:
        """Those of the last day and what they carry, started last first."""
        return self._get(WorkerPage, "/api/v1/workers", limit=limit, cursor=cursor)

    def queue(self, limit: int = 50) -> QueueReply:
        """Queued runs in the order in which workers take them."""
        return self._get(QueueReply, "/api/v1/queue", limit=limit)
