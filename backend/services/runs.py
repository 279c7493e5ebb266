"""Accepting and finding runs."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.orm import Session

from backend.errors import ConflictError, NotFoundError, StaleError
from backend.models import Doorbell, IdempotencyKey, Project, Run, is_id
from backend.schemas.projects import DEFAULT_PROJECT
from backend.schemas.runs import RunChange
from backend.services import run_values
from backend.services.announcements import announce
from engine.config import RunConfig


def find(session: Session, run_id: str, lock: bool = False, deleted: bool = False) -> Run:
    """NotFoundError also for a deleted run, unless ``deleted``."""
    run = session.get(Run, run_id, with_for_update=lock) if is_id(run_id) else None
    if run is None or (run.deleted_at is not None and not deleted):
        raise NotFoundError(f"there is no run {run_id}")
    return run


@dataclass(frozen=True)
class Wishes:
    """What a submission says beside its configuration. ``start_after`` is in seconds since the epoch; ``source`` is the git state
    where it was made, which does not make it another submission."""

    tags: Sequence[str] = ()
    priority: int = 0
    needs: str = ""
    start_after: float | None = None
    owner: str | None = None
    project_id: str = DEFAULT_PROJECT
    notes: str = ""
    source: Mapping[str, Any] | None = None


def submit(session: Session, config: RunConfig, wishes: Wishes, key: str | None = None) -> tuple[Run, bool]:
    """The accepted run, and whether it is new: a repeated idempotency key gives the run of its first use."""
    asked = {name: value for name, value in asdict(wishes).items() if name != "source"}
    digest = digest_of({"config": config.model_dump(mode="json")} | asked)
    if key is not None and (earlier := repeated(session, key, digest)):
        return earlier, False
    return accept(session, described(config, wishes), key, digest), True


def described(config: RunConfig, wishes: Wishes) -> Run:
    """The row of a run that is yet to be accepted."""
    own = {name: value for name, value in asdict(wishes).items() if name != "tags"}
    body = config.model_dump(mode="json")
    return Run(name=config.name, config=body, seed=config.seed, tags=list(wishes.tags), steps=config.algorithm.steps, **own)


def accept(session: Session, run: Run, key: str | None, digest: str) -> Run:
    """Run, doorbell, idempotency key, what it is found by and what webhooks are told in one transaction; ConflictError if its project is
    archived."""
    demand_open(session.get_one(Project, run.project_id))
    session.add(run)
    session.flush()
    run_values.describe(session, run)
    session.add(Doorbell(run_id=run.id, next_ring_at=run.start_after or time.time()))
    if key is not None:
        session.add(IdempotencyKey(key=key, body_sha256=digest, run_id=run.id))
    session.flush()
    announce(session, run.id, "run.queued")
    return run


def demand_open(project: Project) -> None:
    """ConflictError if it is archived."""
    if project.archived_at is not None:
        raise ConflictError(f"project {project.name} is archived: it takes no more runs")


def repeated(session: Session, key: str, digest: str) -> Run | None:
    """The run that was accepted under ``key``; ConflictError if that was for something else."""
    earlier = session.get(IdempotencyKey, key)
    if earlier is not None and earlier.body_sha256 != digest:
        raise ConflictError(f"Idempotency-Key {key} was used for another submission")
    return find(session, earlier.run_id, deleted=True) if earlier else None


def digest_of(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def change(session: Session, run_id: str, wanted: RunChange, seen: str | None) -> Run:
    """Sets what ``wanted`` names. ``seen`` is an If-Match header: StaleError unless it names the run's present revision."""
    run = find(session, run_id, lock=True)
    if seen is not None and not _names(seen, run):
        raise StaleError(f"run {run_id} has been changed meanwhile: it is at revision {run.revision} now")
    changes = {name: value for name, value in wanted.model_dump(exclude_none=True).items() if getattr(run, name) != value}
    for name, value in changes.items():
        setattr(run, name, value)
    if changes:
        run.revision += 1
        session.flush()
        run_values.describe_again(session, run)
    return run


def entity_tag(revision: int) -> str:
    return f'"{revision}"'


def _names(seen: str, run: Run) -> bool:
    tags = {tag.strip() for tag in seen.split(",")}
    return "*" in tags or entity_tag(run.revision) in tags
