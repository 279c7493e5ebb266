"""Finds a run by its id."""

from sqlalchemy.orm import Session

from backend.errors import NotFoundError
from backend.models import Run, is_id


def find(session: Session, run_id: str, lock: bool = False, deleted: bool = False) -> Run:
    """NotFoundError also for a deleted run, unless ``deleted``."""
    run = session.get(Run, run_id, with_for_update=lock) if is_id(run_id) else None
    if run is None:
        raise NotFoundError(f"there is no run {run_id}")
    if run.deleted_at is not None and not deleted:
        how = f"among the deleted ones in the list of runs, or by longtail undelete {run_id}"
        raise NotFoundError(f"there is no run {run_id} any more, as it was deleted; for some days it can be restored, {how}")
    return run
