"""Runs in the queue, and workers that take them."""

import time
from collections.abc import Mapping
from typing import Any

from backend.database import Database
from backend.models import Run, new_id
from backend.services.queue.scheduling import QueueLimits
from backend.services.runs import submission
from backend.services.runs.attempts import claim_next
from engine.config import RunConfig

NO_LIMITS = QueueLimits()
NOTHING: Mapping[str, Any] = {}


def queue(database: Database, name: str, queued_ago: float = 0.0, config: Mapping[str, Any] = NOTHING, **wishes: Any) -> str:
    with database.write() as session:
        asked = RunConfig.model_validate({"name": name, **config})
        run, _ = submission.submit(session, asked, submission.SubmissionOptions(**wishes))
        run.queued_at = time.time() - queued_ago
        return run.id


def take(database: Database, *labels: str, limits: QueueLimits = NO_LIMITS) -> str | None:
    """The name of the run that a worker gets."""
    with database.write() as session:
        claimed = claim_next(session, new_id(), labels, limits, 60)
        return session.get_one(Run, claimed.run_id).name if claimed else None


def take_all(database: Database, limits: QueueLimits = NO_LIMITS) -> list[str]:
    return list(iter(lambda: take(database, limits=limits), None))
