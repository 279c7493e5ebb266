"""Subscriptions, and the outbox of messages to them: sent at least once, later and later if nobody takes them, given up after a day."""

import base64
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session

from backend.errors import ConflictError, NotFoundError
from backend.models import Delivery, Webhook, is_id
from backend.services.announcements import message
from backend.services.lifecycle import affected
from backend.services.paging import page

MOST = 50
BATCH = 20
HOLD_SECONDS = 60.0
"""That whoever has taken a message has to send it; then somebody else may."""
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0
MOST_TRIES = 11
KEEP_SECONDS = 30 * 24 * 3600.0
PING = "ping"
PREFIX = "whsec_"


def add(session: Session, url: str, events: Sequence[str]) -> Webhook:
    if (session.scalar(select(func.count()).select_from(Webhook)) or 0) >= MOST:
        raise ConflictError(f"there are {MOST} webhooks already; remove one first")
    secret = PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    webhook = Webhook(url=url, events=sorted(set(events)), secret=secret)
    session.add(webhook)
    session.flush()
    return webhook


def find(session: Session, webhook_id: str) -> Webhook:
    webhook = session.get(Webhook, webhook_id) if is_id(webhook_id) else None
    if webhook is None:
        raise NotFoundError(f"there is no webhook {webhook_id}")
    return webhook


def webhooks(session: Session, limit: int, cursor: str | None) -> tuple[Sequence[Webhook], str | None]:
    """Newest first."""
    return page(session, select(Webhook), [Webhook.created_at, Webhook.id], limit, cursor)


def deliveries(session: Session, webhook: Webhook, limit: int, cursor: str | None) -> tuple[Sequence[Delivery], str | None]:
    """Newest first."""
    return page(session, select(Delivery).where(Delivery.webhook_id == webhook.id), [Delivery.created_at, Delivery.id], limit, cursor)


def remove(session: Session, webhook: Webhook) -> None:
    """With its messages, sent or not."""
    affected(session, delete(Webhook).where(Webhook.id == webhook.id))


def ping(session: Session, webhook: Webhook) -> Delivery:
    """A message that tells of nothing; it is tried once."""
    delivery = Delivery(webhook_id=webhook.id, event=PING, body=message(PING, {}))
    session.add(delivery)
    session.flush()
    return delivery


@dataclass(frozen=True)
class Parcel:
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
        signature = hmac.digest(base64.b64decode(self.secret.removeprefix(PREFIX)), signed, "sha256")
        named = {"webhook-id": self.id, "webhook-timestamp": moment}
        return named | {"webhook-signature": f"v1,{base64.b64encode(signature).decode()}", "content-type": "application/json"}


def any_due(session: Session, now: float) -> bool:
    return session.scalar(select(Delivery.id).where(*_due(now)).limit(1)) is not None


def take(session: Session, now: float) -> list[Parcel]:
    """What is to be sent now, and by nobody else for a while. Old messages are forgotten on this occasion."""
    affected(session, delete(Delivery).where(Delivery.created_at < now - KEEP_SECONDS))
    due = select(Delivery, Webhook).join(Webhook, Webhook.id == Delivery.webhook_id).where(*_due(now))
    mine = due.order_by(Delivery.next_try_at).limit(BATCH).with_for_update(of=Delivery, skip_locked=True)
    found = session.execute(mine).all()
    for delivery, _ in found:
        delivery.tries, delivery.next_try_at = delivery.tries + 1, now + HOLD_SECONDS
    return [Parcel(each.id, hook.url, hook.secret, each.event, each.body, each.tries) for each, hook in found]


def settle(session: Session, parcel: Parcel, status: int | None, error: str | None, now: float) -> None:
    """Notes how a try ended; ``error`` is None if it succeeded. Of no effect if somebody else has taken the message since."""
    last = parcel.event == PING or parcel.tries >= MOST_TRIES
    state = "delivered" if error is None else "failed" if last else "pending"
    pause = min(FIRST_PAUSE_SECONDS * 3 ** (parcel.tries - 1), LONGEST_PAUSE_SECONDS)
    outcome = {"state": state, "status": status, "error": error, "next_try_at": now + pause}
    ours = update(Delivery).where(Delivery.id == parcel.id, Delivery.tries == parcel.tries, Delivery.state == "pending")
    affected(session, ours.values(finished_at=None if state == "pending" else now, **outcome))


def _due(now: float) -> tuple[ColumnElement[bool], ...]:
    """Also what is further off than any pause: the clock has been set back since."""
    ripe = or_(Delivery.next_try_at <= now, Delivery.next_try_at > now + LONGEST_PAUSE_SECONDS + HOLD_SECONDS)
    return Delivery.state == "pending", ripe
