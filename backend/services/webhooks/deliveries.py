"""The outbox of messages to webhooks: sent at least once, later and later if nobody takes them, given up after a day."""

import base64
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.orm import Session

from backend.database import affected
from backend.models import Delivery, Webhook
from backend.services.pagination import page
from backend.services.webhooks.notifications import message
from backend.services.webhooks.subscriptions import SECRET_PREFIX
from longtail.durations import DAY_SECONDS

BATCH = 20
HOLD_SECONDS = 60.0
"""That whoever has taken a message has to send it; then somebody else may."""
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0
MOST_TRIES = 11
KEEP_SECONDS = 30 * DAY_SECONDS
PING = "ping"


def deliveries(session: Session, webhook: Webhook, limit: int, cursor: str | None) -> tuple[Sequence[Delivery], str | None]:
    """Newest first."""
    return page(session, select(Delivery).where(Delivery.webhook_id == webhook.id), [Delivery.created_at, Delivery.id], limit, cursor)


def ping(session: Session, webhook: Webhook) -> Delivery:
    """A message that tells of nothing; it is tried once."""
    delivery = Delivery(webhook_id=webhook.id, event=PING, body=message(PING, {}))
    session.add(delivery)
    session.flush()
    return delivery


@dataclass(frozen=True)
class ClaimedDelivery:
    """A message that this process has taken to send, for the ``tries``-th time."""

    id: str
    url: str
    secret: str
    event: str
    body: str
    tries: int

    def headers(self, now: float) -> dict[str, str]:
        """Says who sends it: HMAC-SHA256 over id, time and body, as in the Standard Webhooks specification."""
        moment = str(int(now))
        signed = f"{self.id}.{moment}.{self.body}".encode()
        signature = hmac.digest(base64.b64decode(self.secret.removeprefix(SECRET_PREFIX)), signed, "sha256")
        named = {"webhook-id": self.id, "webhook-timestamp": moment}
        return named | {"webhook-signature": f"v1,{base64.b64encode(signature).decode()}", "content-type": "application/json"}


def any_due(session: Session, now: float) -> bool:
    return session.scalar(select(Delivery.id).where(*_due(now)).limit(1)) is not None


def claim_due(session: Session, now: float) -> list[ClaimedDelivery]:
    """What is to be sent now, and by nobody else for a while. Old messages are forgotten on this occasion."""
    affected(session, delete(Delivery).where(Delivery.created_at < now - KEEP_SECONDS))
    due = select(Delivery, Webhook).join(Webhook, Webhook.id == Delivery.webhook_id).where(*_due(now))
    mine = due.order_by(Delivery.next_try_at).limit(BATCH).with_for_update(of=Delivery, skip_locked=True)
    found = session.execute(mine).all()
    for delivery, _ in found:
        delivery.tries, delivery.next_try_at = delivery.tries + 1, now + HOLD_SECONDS
    return [ClaimedDelivery(each.id, hook.url, hook.secret, each.event, each.body, each.tries) for each, hook in found]


def record_try(session: Session, delivery: ClaimedDelivery, status: int | None, error: str | None, now: float) -> None:
    """Notes how a try ended; ``error`` is None if it succeeded. Of no effect if somebody else has taken the message since."""
    last = delivery.event == PING or delivery.tries >= MOST_TRIES
    state = "delivered" if error is None else "failed" if last else "pending"
    pause = min(FIRST_PAUSE_SECONDS * 3 ** (delivery.tries - 1), LONGEST_PAUSE_SECONDS)
    outcome = {"state": state, "status": status, "error": error, "next_try_at": now + pause}
    ours = update(Delivery).where(Delivery.id == delivery.id, Delivery.tries == delivery.tries, Delivery.state == "pending")
    affected(session, ours.values(finished_at=None if state == "pending" else now, **outcome))


def _due(now: float) -> tuple[ColumnElement[bool], ...]:
    """Also what is further off than any pause: the clock has been set back since."""
    ripe = or_(Delivery.next_try_at <= now, Delivery.next_try_at > now + LONGEST_PAUSE_SECONDS + HOLD_SECONDS)
    return Delivery.state == "pending", ripe
