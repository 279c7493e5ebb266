"""Accepting, finding and cancelling runs."""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, delete, or_, select, tuple_
from sqlalchemy.orm import Session

from backend.errors import ConflictError, InvalidError, NotFoundError
from backend.models import Doorbell, IdempotencyKey, Run, is_id
from backend.schemas import TERMINAL_STATES, FieldError
from backend.services.lifecycle import affected, transition
from engine.config import RunConfig


def find(session: Session, run_id: str, lock: bool = False) -> Run:
    run = session.get(Run, run_id, with_for_update=lock) if is_id(run_id) else None
    if run is None:
        raise NotFoundError(f"there is no run {run_id}")
    return run


def submit(session: Session, config: RunConfig, tags: Sequence[str], key: str | None = None) -> tuple[Run, bool]:
    """The accepted run, and whether it is new: a repeated idempotency key gives the run of its first use."""
    body = {"config": config.model_dump(mode="json"), "tags": list(tags)}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    if key is not None and (earlier := session.get(IdempotencyKey, key)):
        if earlier.body_sha256 != digest:
            raise ConflictError(f"Idempotency-Key {key} was used for another submission")
        return find(session, earlier.run_id), False
    run = Run(name=config.name, config=body["config"], seed=config.seed, tags=body["tags"], steps=config.algorithm.steps)
    session.add(run)
    session.flush()
    session.add(Doorbell(run_id=run.id))
    if key is not None:
        session.add(IdempotencyKey(key=key, body_sha256=digest, run_id=run.id))
    session.flush()
    return run, True


def page(session: Session, state: str | None, q: str | None, limit: int, cursor: str | None) -> tuple[Sequence[Run], str | None]:
    """Newest first; the cursor of the next page, None at the end."""
    query: Select[Any] = select(Run).order_by(Run.created_at.desc(), Run.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(Run.state == state)
    if q:
        query = query.where(or_(Run.name.icontains(q, autoescape=True), Run.id.startswith(q, autoescape=True)))
    if cursor is not None:
        query = query.where(tuple_(Run.created_at, Run.id) < _decode(cursor))
    found = session.scalars(query).all()
    return found[:limit], _encode(found[limit - 1]) if len(found) > limit else None


def cancel(session: Session, run_id: str) -> Run:
    """A queued run is cancelled at once, an active one as soon as its worker sees the request."""
    run = find(session, run_id, lock=True)
    if run.state in TERMINAL_STATES:
        raise ConflictError(f"run {run_id} is {run.state} already")
    run.cancel_requested = True
    session.flush()
    if run.state == "queued":
        transition(session, run_id, "cancelled")
        affected(session, delete(Doorbell).where(Doorbell.run_id == run_id))
    session.refresh(run)
    return run


def _encode(run: Run) -> str:
    return base64.urlsafe_b64encode(json.dumps([run.created_at, run.id]).encode()).decode()


def _decode(cursor: str) -> tuple[float, str]:
    try:
        created_at, run_id = json.loads(base64.urlsafe_b64decode(cursor))
        return float(created_at), str(run_id)
    except (binascii.Error, ValueError, TypeError):
        raise InvalidError("the cursor is not one that this server gave", [FieldError(field="cursor", message="unknown cursor")]) from None
