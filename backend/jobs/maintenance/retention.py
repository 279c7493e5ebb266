"""What finished runs may keep on disk: what somebody can still use, which is the artifacts, and of a run that can be retried its last
checkpoint. Deleted runs go for good when they can no longer be restored.
"""

import logging
import shutil
import time
from pathlib import Path

from sqlalchemy import delete, or_, select, update

from backend.database import Database, affected
from backend.jobs.engine.given_drafter import GIVEN
from backend.models import Run
from backend.services.runs.resume_points import is_kept, kept_since
from backend.settings import Settings
from engine.checkpoint.run_folder import CHECKPOINTS, PRETRAINING, UNFINISHED_ARTIFACTS
from engine.checkpoint.verification import listed, newest
from engine.errors import CheckpointError
from longtail.durations import DAY_SECONDS
from longtail.schemas.runs import TERMINAL_STATES

BATCH = 20

logger = logging.getLogger(__name__)


def apply_retention(database: Database, settings: Settings) -> None:
    """Looks after a few runs; called again and again, it gets to all."""
    now = time.time()
    _forget(database, settings, now - settings.keep_deleted_days * DAY_SECONDS)
    since = kept_since(settings)
    outlived = (Run.state != "succeeded") & (Run.finished_at < since) & (Run.tidied_at < since)
    query = select(Run.id, Run.state, Run.finished_at).where(Run.state.in_(TERMINAL_STATES), or_(Run.tidied_at.is_(None), outlived))
    with database.read() as session:
        found = session.execute(query.limit(BATCH)).all()
    for run_id, state, finished_at in found:
        retriable = state != "succeeded" and is_kept(finished_at, since)
        for saved in (CHECKPOINTS, PRETRAINING):
            shrink(settings.run_folder(run_id) / saved, keep_last=retriable)
        for left in settings.run_folder(run_id).glob(f"{UNFINISHED_ARTIFACTS}*"):
            shutil.rmtree(left, ignore_errors=True)
        if not retriable:
            shutil.rmtree(settings.run_folder(run_id) / GIVEN, ignore_errors=True)
        with database.write() as session:
            affected(session, update(Run).where(Run.id == run_id).values(tidied_at=now))


def shrink(checkpoints: Path, keep_last: bool) -> None:
    """All of it, or all steps but the newest that verifies; nothing where none does: somebody may mend it. To look at a single one would
    take reading it for nothing."""
    if not keep_last:
        shutil.rmtree(checkpoints, ignore_errors=True)
    if len(listed(checkpoints)) < 2:
        return
    try:
        last = newest(checkpoints)
    except CheckpointError as error:
        logger.warning("%s: %s", checkpoints, error)
        return
    for path in listed(checkpoints):
        if last and path != last.path:
            shutil.rmtree(path, ignore_errors=True)


def _forget(database: Database, settings: Settings, before: float) -> None:
    with database.read() as session:
        gone = session.scalars(select(Run.id).where(Run.deleted_at < before).limit(BATCH)).all()
    for run_id in gone:
        shutil.rmtree(settings.run_folder(run_id), ignore_errors=True)
        with database.write() as session:
            affected(session, delete(Run).where(Run.id == run_id, Run.deleted_at < before))
