"""What users do to a run that is there. Asking twice does no harm; what the state does not allow is refused, with what it allows."""

import time

from sqlalchemy.orm import Session

from backend.errors import ConflictError
from backend.models import Run
from backend.services.runs.lifecycle import transition
from backend.services.runs.lookup import find
from longtail.schemas.runs import Action, possible


def cancel(session: Session, run_id: str) -> Run:
    """A run that waits is cancelled at once, an active one as soon as its worker sees the request."""
    run = find(session, run_id, lock=True)
    if not (run.cancel_requested and run.finished_at is None):
        demand(run, "cancel")
    run.cancel_requested = True
    session.flush()
    if run.state in ("queued", "paused"):
        transition(session, run_id, "cancelled")
    session.refresh(run)
    return run


def pause(session: Session, run_id: str) -> Run:
    """A queued run is paused at once, an active one at its next step boundary."""
    run = find(session, run_id, lock=True)
    if not run.pause_requested:
        demand(run, "pause")
    if run.state == "queued":
        transition(session, run_id, "paused")
    else:
        run.pause_requested = True
        session.flush()
    session.refresh(run)
    return run


def resume(session: Session, run_id: str) -> Run:
    """A paused run is queued again, from its last checkpoint, and no more waits as after losses; one that has not stopped yet goes on."""
    run = find(session, run_id, lock=True)
    demand(run, "resume")
    if run.state == "paused":
        begun = run.attempt > 0  # what its user wants it to start after is over then
        transition(session, run_id, "queued", start_after=None if begun else run.start_after)
    run.pause_requested = False
    session.flush()
    session.refresh(run)
    return run


def remove(session: Session, run_id: str) -> None:
    """Out of every list at once; the rest goes when ``keep_deleted_days`` are over."""
    run = find(session, run_id, lock=True)
    demand(run, "delete")
    run.deleted_at = time.time()


def restore(session: Session, run_id: str) -> Run:
    """Takes back a deletion."""
    run = find(session, run_id, lock=True, deleted=True)
    run.deleted_at = None
    session.flush()
    return run


def demand(run: Run, action: Action) -> None:
    """ConflictError unless ``action`` can be done with the run now."""
    can = possible(run.state, run.cancel_requested, run.pause_requested, run.kind)
    if action not in can:
        now = "being cancelled" if run.cancel_requested and run.state != "cancelled" else run.state
        raise ConflictError(f"run {run.id} is {now}: cannot {action} it; what can be done: {', '.join(can)}")
