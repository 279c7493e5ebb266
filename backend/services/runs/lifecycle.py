"""The states of a run. ``transition`` is the only place that changes one, and webhooks hear of it."""

import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import and_, update
from sqlalchemy.orm import Session

from backend.database import affected
from backend.models import Run
from backend.models.runs import GENERATED
from backend.services.webhooks.notifications import queue_deliveries
from longtail.schemas.runs import TERMINAL_STATES, RunState

ACTIVE: frozenset[RunState] = frozenset({"starting", "running"})
CARRIED = and_(Run.state.in_(ACTIVE), Run.kind == "engine", ~Run.id.endswith(GENERATED))
"""With a worker."""
PREDECESSORS: Mapping[RunState, frozenset[RunState]] = {
    "queued": ACTIVE | {"paused"},  # a lost attempt, or a worker that shuts down, gives the run back
    "paused": ACTIVE | {"queued"},
    "starting": frozenset({"queued"}),
    "running": frozenset({"starting"}),
    "succeeded": frozenset({"running"}),
    "failed": ACTIVE,
    "cancelled": ACTIVE | {"queued", "paused"},
}


def transition(session: Session, run_id: str, to: RunState, fence: int | None = None, **changes: Any) -> bool:
    """Moves the run to ``to`` if its state allows it and attempt number ``fence`` (where given) is still the current one; False if not."""
    if to in TERMINAL_STATES:
        changes["finished_at"] = time.time()
    if to == "queued":
        changes["queued_at"] = time.time()
    if to == "paused":
        changes["pause_requested"] = False
    statement = update(Run).where(Run.id == run_id, Run.state.in_(PREDECESSORS[to]))
    if fence is not None:
        statement = statement.where(Run.attempt == fence)
    moved = affected(session, statement.values(state=to, **changes)) == 1
    if moved:
        queue_deliveries(session, run_id, f"run.{to}")
    return moved
