"""A thread that sends what webhooks are to be told. Each API process has one; the database says who sends what."""

import asyncio
import logging
import time

import httpx

from backend.api.chore import Chore
from backend.database import Database
from backend.outbound import ForbiddenError, post
from backend.services import webhooks
from backend.services.webhooks import Parcel
from backend.settings import Settings

MOST_ERROR = 300

logger = logging.getLogger(__name__)


class Courier(Chore):
    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__("sending to webhooks", self.deliver, settings.sweep_seconds)
        self._database, self._settings = database, settings

    def deliver(self) -> int:
        """Sends what is due, a batch at most; the number of tries."""
        parcels = self._take()
        if parcels:
            asyncio.run(self._send_all(parcels))
            self.nudge()  # there may be more
        return len(parcels)

    def _take(self) -> list[Parcel]:
        now = time.time()
        with self._database.read() as session:
            if not webhooks.any_due(session, now):
                return []
        with self._database.write() as session:
            return webhooks.take(session, now)

    async def _send_all(self, parcels: list[Parcel]) -> None:
        async def send(parcel: Parcel) -> None:
            status, error = await self._send(parcel)
            await asyncio.to_thread(self._note, parcel, status, error)

        await asyncio.gather(*map(send, parcels))

    async def _send(self, parcel: Parcel) -> tuple[int | None, str | None]:
        """The status of the answer, and what went wrong."""
        try:
            status = await post(parcel.url, parcel.body.encode(), parcel.headers(time.time()), self._settings.webhook_networks)
        except TimeoutError:
            return None, "no answer in time"
        except (ForbiddenError, OSError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return None, f"{type(error).__name__}: {error}"[:MOST_ERROR]
        return status, None if status in range(200, 300) else f"answered {status}"

    def _note(self, parcel: Parcel, status: int | None, error: str | None) -> None:
        with self._database.write() as session:
            webhooks.settle(session, parcel, status, error, time.time())
        if error is not None:
            logger.warning("webhook delivery %s (%s), try %d: %s", parcel.id, parcel.event, parcel.tries, error)
