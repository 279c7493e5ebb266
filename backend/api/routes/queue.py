"""Workers, and the runs that wait for them."""

import time

from fastapi import APIRouter
from sqlalchemy.orm import Session

from backend.api.dependencies import Cursor, IdentityDep, Limit, ReadSession, SettingsDep
from backend.models import Project
from backend.services.identity.tokens import Identity
from backend.services.projects.membership_check import visible_projects
from backend.services.queue.scheduling import QueueLimits
from backend.services.queue.waiting_runs import waiting_runs
from backend.services.queue.workers import workers
from longtail.schemas.queue import Queue, WorkerPage

router = APIRouter(tags=["queue"])


@router.get("/workers")
def list_workers(identity: IdentityDep, session: ReadSession, limit: Limit = 50, cursor: Cursor = None) -> WorkerPage:
    """Those of the last day and what they carry, started last first."""
    return WorkerPage.from_rows(workers(session, _seen(session, identity), limit, cursor, time.time()))


@router.get("/queue")
def get_queue(identity: IdentityDep, session: ReadSession, settings: SettingsDep, limit: Limit = 50) -> Queue:
    """Queued runs in the order in which workers take them, as it looks now: who submits, or ends a run, may change it."""
    return waiting_runs(session, _seen(session, identity), QueueLimits.of(settings), limit, time.time())


def _seen(session: Session, identity: Identity) -> set[str]:
    return set(session.scalars(visible_projects(identity).with_only_columns(Project.id)))
