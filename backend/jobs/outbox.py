"""Rings for queued runs until a worker claims them: at once, then after growing pauses, as any message may get lost.

Who hears a bell takes the run whose turn it is, and goes on until there is none. So there are no more rings than free slots: nobody
would hear the others, and the broker would fill up with them.
"""

import time

from celery import Celery
from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from backend.database import Database
from backend.jobs.celery import ring
from backend.models import Doorbell, Run
from backend.services.lifecycle import affected
from backend.services.queue import SEEN_SECONDS, vacancies

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0


def ring_due(database: Database, app: Celery) -> int:
    """Sends the messages that are due; their number."""
    now = time.time()
    with database.read() as session:
        due = [bell for label, free in vacancies(session, now - SEEN_SECONDS).items() for bell in _due(session, label, free, now)]
    for run_id, rings, label in due:
        ring(app, run_id, label)
        pause = min(FIRST_PAUSE_SECONDS * 2**rings, LONGEST_PAUSE_SECONDS)
        rung = update(Doorbell).where(Doorbell.run_id == run_id, Doorbell.rings == rings)
        with database.write() as session:
            affected(session, rung.values(rings=rings + 1, next_ring_at=now + pause))
    return len(due)


def _due(session: Session, label: str, free: int, now: float) -> list[tuple[str, int, str]]:
    """Also a bell whose time is further off than any pause: the clock has been set back since."""
    query = select(Doorbell.run_id, Doorbell.rings, Run.needs).join(Run, Run.id == Doorbell.run_id)
    ripe = or_(Doorbell.next_ring_at <= now, Doorbell.next_ring_at > now + LONGEST_PAUSE_SECONDS)
    may_start = or_(Run.start_after.is_(None), Run.start_after <= now)
    found = session.execute(query.where(Run.needs == label, ripe, may_start).order_by(Doorbell.next_ring_at).limit(free))
    return [(run_id, rings, needs) for run_id, rings, needs in found]


def hurry(database: Database) -> None:
    """Makes every doorbell due now: a new worker may have lost what the last one had in hand."""
    with database.write() as session:
        affected(session, update(Doorbell).values(next_ring_at=time.time()))
