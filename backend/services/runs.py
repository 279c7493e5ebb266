"""Accepting and finding runs."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from backend.errors import ConflictError, NotFoundError
from backend.models import Doorbell, IdempotencyKey, Run, is_id
from backend.services.announcements import announce
from backend.services.paging import page
from engine.config import RunConfig


def find(session: Session, run_id: str, lock: bool = False, deleted: bool = False) -> Run:
    """NotFoundError also for a deleted run, unless ``deleted``."""
    run = session.get(Run, run_id, with_for_update=lock) if is_id(run_id) else None
    if run is None or (run.deleted_at is not None and not deleted):
        raise NotFoundError(f"there is no run {run_id}")
    return run


@dataclass(frozen=True)
class Wishes:
    """What a submission says beside its configuration. ``start_after`` is in seconds since the epoch."""

    tags: Sequence[str] = ()
    priority: int = 0
    needs: str = ""
    start_after: float | None = None
    owner: str | None = None


def submit(session: Session, config: RunConfig, wishes: Wishes, key: str | None = None) -> tuple[Run, bool]:
    """The accepted run, and whether it is new: a repeated idempotency key gives the run of its first use."""
    digest = digest_of({"config": config.model_dump(mode="json")} | asdict(wishes))
    if key is not None and (earlier := repeated(session, key, digest)):
        return earlier, False
    return accept(session, described(config, wishes), key, digest), True


def described(config: RunConfig, wishes: Wishes) -> Run:
    """The row of a run that is yet to be accepted."""
    own = {name: value for name, value in asdict(wishes).items() if name != "tags"}
    body = config.model_dump(mode="json")
    return Run(name=config.name, config=body, seed=config.seed, tags=list(wishes.tags), steps=config.algorithm.steps, **own)


def accept(session: Session, run: Run, key: str | None, digest: str) -> Run:
    """Run, doorbell, idempotency key and what webhooks are told in one transaction."""
    session.add(run)
    session.flush()
    session.add(Doorbell(run_id=run.id, next_ring_at=run.start_after or time.time()))
    if key is not None:
        session.add(IdempotencyKey(key=key, body_sha256=digest, run_id=run.id))
    session.flush()
    announce(session, run.id, "run.queued")
    return run


def repeated(session: Session, key: str, digest: str) -> Run | None:
    """The run that was accepted under ``key``; ConflictError if that was for something else."""
    earlier = session.get(IdempotencyKey, key)
    if earlier is not None and earlier.body_sha256 != digest:
        raise ConflictError(f"Idempotency-Key {key} was used for another submission")
    return find(session, earlier.run_id, deleted=True) if earlier else None


def digest_of(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def newest(session: Session, state: str | None, q: str | None, limit: int, cursor: str | None) -> tuple[Sequence[Run], str | None]:
    """Newest first; the cursor of the next page, None at the end."""
    query: Select[Any] = select(Run).where(Run.deleted_at.is_(None))
    if state is not None:
        query = query.where(Run.state == state)
    if q:
        query = query.where(or_(Run.name.icontains(q, autoescape=True), Run.id.startswith(q, autoescape=True)))
    return page(session, query, [Run.created_at, Run.id], limit, cursor)
