"""``longtail rebuild``: a run's telemetry once more from what its engine wrote, which is the source of truth."""

from contextlib import closing

from backend.backup.archive import BackupError
from backend.database import Database
from backend.models import Run
from backend.services.telemetry.event_ingest import rebuild
from backend.settings import Settings
from engine.checkpoint.run_folder import EVENTS
from longtail.schemas.runs import TERMINAL_STATES


def rebuild_run(settings: Settings, run_id: str) -> int:
    """Steps that the run has now. BackupError, and nothing changed, unless it has ended and its events are there."""
    path = settings.run_folder(run_id) / EVENTS
    with closing(Database(settings.database)) as database:
        with database.read() as session:
            run = session.get(Run, run_id)
            if run is None:
                raise BackupError(f"there is no run {run_id}; longtail runs lists them")
            if run.state not in TERMINAL_STATES:
                raise BackupError(f"run {run_id} is {run.state}: wait for its end, or cancel it")
            if not path.is_file():
                raise BackupError(f"run {run_id} has no {EVENTS}: it was tracked by a script, or its files are gone")
        rebuild(database, run_id, path)
        with database.read() as session:
            return session.get_one(Run, run_id).step
