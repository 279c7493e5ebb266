"""Accepts runs."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy.orm import Session

from backend.errors import ConflictError
from backend.models import IdempotencyKey, Project, Run
from backend.services.runs import search_index
from backend.services.runs.lookup import find
from backend.services.webhooks.notifications import queue_deliveries
from engine.config import RunConfig
from longtail.schemas.projects import DEFAULT_PROJECT


@dataclass(frozen=True)
class SubmissionKey:
    """An Idempotency-Key and whose it is."""

    user_id: str
    text: str


@dataclass(frozen=True)
class SubmissionOptions:
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


def submit(session: Session, config: RunConfig, options: SubmissionOptions, key: SubmissionKey | None = None) -> tuple[Run, bool]:
    """The accepted run, and whether it is new: a repeated idempotency key gives the run of its first use."""
    asked = {name: value for name, value in asdict(options).items() if name != "source"}
    digest = digest_of({"config": config.model_dump(mode="json")} | asked)
    if key is not None and (earlier := earlier_submission(session, key, digest)):
        return earlier, False
    return accept(session, new_run(config, options), key, digest), True


def new_run(config: RunConfig, options: SubmissionOptions) -> Run:
    """The row of a run that is yet to be accepted."""
    own = {name: value for name, value in asdict(options).items() if name != "tags"}
    body = config.model_dump(mode="json")
    asked = {"gpus": config.gpus, "gpu_only": config.gpu_only, "steps": config.algorithm.steps}
    return Run(name=config.name, config=body, seed=config.seed, tags=list(options.tags), **asked, **own)


def accept(session: Session, run: Run, key: SubmissionKey | None, digest: str) -> Run:
    """Run, idempotency key, what it is found by and what webhooks are told in one transaction; ConflictError if its project is
    archived."""
    refuse_archived(session.get_one(Project, run.project_id))
    session.add(run)
    session.flush()
    search_index.index_run(session, run)
    if key is not None:
        keep_key(session, key, digest, run)
    queue_deliveries(session, run.id, "run.queued")
    return run


def refuse_archived(project: Project) -> None:
    """ConflictError if it is archived."""
    if project.archived_at is not None:
        raise ConflictError(f"project {project.name} is archived: it takes no more runs")


def keep_key(session: Session, key: SubmissionKey, digest: str, run: Run) -> None:
    session.add(IdempotencyKey(user_id=key.user_id, key=key.text, body_sha256=digest, run_id=run.id))
    session.flush()


def earlier_submission(session: Session, key: SubmissionKey, digest: str) -> Run | None:
    """The run that was accepted under ``key``; ConflictError if that was for something else."""
    earlier = session.get(IdempotencyKey, (key.user_id, key.text))
    if earlier is not None and earlier.body_sha256 != digest:
        raise ConflictError(f"Idempotency-Key {key.text} was used for another submission")
    return find(session, earlier.run_id, deleted=True) if earlier else None


def digest_of(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
