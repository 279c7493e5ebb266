"""Webhooks that listen, and what waits to be sent to them."""

from sqlalchemy import select

from backend.database import Database
from backend.models import Delivery
from backend.services.webhooks import subscriptions
from longtail.schemas.webhooks import ENDINGS

ALL = ["run.queued", "run.starting", "run.running", "run.paused", *ENDINGS]


def subscribe(database: Database, port: int, *names: str) -> str:
    with database.write() as session:
        return subscriptions.add(session, f"http://127.0.0.1:{port}/hook", names or ALL).id


def waiting(database: Database) -> list[tuple[str, str, int]]:
    with database.read() as session:
        query = select(Delivery.event, Delivery.state, Delivery.tries).order_by(Delivery.created_at)
        return [(event, state, tries) for event, state, tries in session.execute(query)]
