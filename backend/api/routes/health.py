"""Is it alive, can it work?"""

import time

from fastapi import APIRouter
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from backend.api.deps import PlainDatabase, SettingsDep
from backend.api.problems import documented
from backend.database import Database
from backend.errors import NotReadyError
from backend.migrate import at_head
from backend.models import Worker
from backend.schemas.base import FieldError
from backend.schemas.health import Health, Readiness

WORKER_SEEN_SECONDS = 15.0

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> Health:
    """The process answers."""
    return Health()


@router.get("/readyz", responses=documented(503))
def readyz(database: PlainDatabase, settings: SettingsDep) -> Readiness:
    """A submitted run would be carried out: the database is there and migrated, and a worker was seen lately."""
    faults = _faults(database, max(WORKER_SEEN_SECONDS, 4 * settings.sweep_seconds))
    if faults:
        raise NotReadyError("; ".join(fault.message for fault in faults), faults)
    return Readiness(checks=dict.fromkeys(("database", "migrations", "worker"), "ok"))


def _faults(database: Database, seen_seconds: float) -> list[FieldError]:
    try:
        if not at_head(database):
            return [FieldError(field="migrations", message="the database is not migrated; run: python -m backend.migrate")]
        with database.read() as session:
            seen_at = session.scalar(select(func.max(Worker.seen_at)))
    except SQLAlchemyError as error:
        return [FieldError(field="database", message=f"the database does not answer: {type(error).__name__}")]
    if seen_at is None or seen_at < time.time() - seen_seconds:
        return [FieldError(field="worker", message=f"no job worker was seen in the last {seen_seconds:.0f} s")]
    return []
