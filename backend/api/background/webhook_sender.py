"""Sends to webhooks what they are to be told, in a thread. Each API process has one; the database says who sends what."""

import asyncio
import logging
import time

import httpx

from backend.api.background.periodic_thread import PeriodicThread
from backend.database import Database
from backend.services.webhooks import deliveries
from backend.services.webhooks.deliveries import ClaimedDelivery
from backend.services.webhooks.ssrf_protection import ForbiddenAddressError, post
from backend.settings import Settings

MOST_ERROR = 300

logger = logging.getLogger(__name__)


class WebhookSender(PeriodicThread):
    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__("sending to webhooks", self.deliver, settings.sweep_seconds)
        self._database, self._settings = database, settings

    def deliver(self) -> int:
        """Sends what is due, a batch at most; the number of tries."""
        claimed = self._take()
        if claimed:
            asyncio.run(self._send_all(claimed))
            self.nudge()  # there may be more
        return len(claimed)

    def _take(self) -> list[ClaimedDelivery]:
        now = time.time()
        with self._database.read() as session:
            if not deliveries.any_due(session, now):
                return []
        with self._database.write() as session:
            return deliveries.claim_due(session, now)

    async def _send_all(self, claimed: list[ClaimedDelivery]) -> None:
        async def send(delivery: ClaimedDelivery) -> None:
            status, error = await self._send(delivery)
            await asyncio.to_thread(self._note, delivery, status, error)

        await asyncio.gather(*map(send, claimed))

    async def _send(self, delivery: ClaimedDelivery) -> tuple[int | None, str | None]:
        """The status of the answer, and what went wrong."""
        try:
            status = await post(delivery.url, delivery.body.encode(), delivery.headers(time.time()), self._settings.webhook_networks)
        except TimeoutError:
            return None, "no answer in time"
        except (ForbiddenAddressError, OSError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return None, f"{type(error).__name__}: {error}"[:MOST_ERROR]
        return status, None if status in range(200, 300) else f"answered {status}"

    def _note(self, delivery: ClaimedDelivery, status: int | None, error: str | None) -> None:
        with self._database.write() as session:
            deliveries.record_try(session, delivery, status, error, time.time())
        if error is not None:
            logger.warning("webhook delivery %s (%s), try %d: %s", delivery.id, delivery.event, delivery.tries, error)
