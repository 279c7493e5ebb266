"""Rings for every queued run until a worker claims it: at once, then after growing pauses, as any message may get lost."""

import time

from celery import Celery
from sqlalchemy import select, update

from backend.database import Database
from backend.jobs.celery import ring
from backend.models import Doorbell
from backend.services.lifecycle import affected

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
BATCH = 100


def ring_due(database: Database, app: Celery) -> int:
    """Sends the messages that are due; their number."""
    now = time.time()
    with database.read() as session:
        due = session.scalars(select(Doorbell).where(Doorbell.next_ring_at <= now).order_by(Doorbell.next_ring_at).limit(BATCH)).all()
    for bell in due:
        ring(app, bell.run_id)
        pause = min(FIRST_PAUSE_SECONDS * 2**bell.rings, LONGEST_PAUSE_SECONDS)
        rung = update(Doorbell).where(Doorbell.run_id == bell.run_id, Doorbell.rings == bell.rings)
        with database.write() as session:
            affected(session, rung.values(rings=bell.rings + 1, next_ring_at=now + pause))
    return len(due)


def hurry(database: Database) -> None:
    """Makes every doorbell due now: a new worker may have lost what the last one had in hand."""
    with database.write() as session:
        affected(session, update(Doorbell).values(next_ring_at=time.time()))
