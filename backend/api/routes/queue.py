"""Workers, and the runs that wait for them."""

import time

from fastapi import APIRouter
from sqlalchemy.orm import Session

from backend.api.deps import Cursor, IdentityDep, Limit, Reading, SettingsDep
from backend.models import Project
from backend.schemas.queue import Queue, WorkerPage
from backend.services.projects import in_sight
from backend.services.queue import Limits
from backend.services.tokens import Identity
from backend.services.waiting import queue
from backend.services.workers import workers

router = APIRouter(tags=["queue"])


@router.get("/workers")
def list_workers(identity: IdentityDep, session: Reading, limit: Limit = 50, cursor: Cursor = None) -> WorkerPage:
    """Those of the last day and what they carry, started last first."""
    return WorkerPage.from_rows(workers(session, _seen(session, identity), limit, cursor, time.time()))


@router.get("/queue")
def get_queue(identity: IdentityDep, session: Reading, settings: SettingsDep, limit: Limit = 50) -> Queue:
    """Queued runs in the order in which workers take them, as it looks now: who submits, or ends a run, may change it."""
    return queue(session, _seen(session, identity), Limits.of(settings), limit, time.time())


def _seen(session: Session, identity: Identity) -> set[str]:
    return set(session.scalars(in_sight(identity).with_only_columns(Project.id)))
