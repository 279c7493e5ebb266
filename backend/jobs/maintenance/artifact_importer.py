"""Brings what engines leave in their runs' folders into the artifact store, and frees what nobody refers to any more.

A file is copied under a name of its own, checked, put in its place, and only then called stored; a kill at any point leaves the artifact as
it was, in the run's folder, and at worst a copy that nobody refers to.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from backend.database import Database, affected
from backend.models import Artifact, Run
from backend.services.artifacts.garbage_collection import collect_garbage
from backend.services.artifacts.registry import left_in_run_folder, lock_content
from backend.services.artifacts.upload_validation import model_card
from backend.services.runs.attempts import add_log_line
from backend.settings import Settings
from backend.storage.open_store import open_store
from backend.storage.staging import staging
from backend.storage.store import Store
from longtail.file_chunks import chunks
from longtail.schemas.runs import TERMINAL_STATES

COLLECT_SECONDS = 3600.0

logger = logging.getLogger(__name__)


class ArtifactImporter:
    def __init__(self, database: Database, settings: Settings, stopping: threading.Event) -> None:
        self._database, self._settings, self._stopping = database, settings, stopping
        self._store = open_store(settings)
        self._collected = time.monotonic()  # not at the start, when runs may be on their way back

    def look(self) -> None:
        """Once."""
        import_artifacts(self._database, self._settings, self._store, self._stopping)
        if time.monotonic() > self._collected + COLLECT_SECONDS:
            self._collected = time.monotonic()
            collect_garbage(self._database, self._settings, self._store)


def import_artifacts(database: Database, settings: Settings, store: Store, stopping: threading.Event | None = None) -> None:
    """Stores every artifact whose file lies in a run's folder of this machine; what is stored and of a finished run leaves that folder."""
    query = select(Artifact.id, Artifact.run_id, Artifact.path, Artifact.sha256, Artifact.bytes, Artifact.stored_at, Run.state)
    waiting = query.join(Run).where(Artifact.path.is_not(None), Artifact.missing_since.is_(None))
    with database.read() as session:
        found = session.execute(waiting).all()
    for row in found:
        if stopping is not None and stopping.is_set():
            return
        if settings.run_folder(row.run_id).is_dir():  # else it is another machine's
            try:
                _keep(database, settings, store, row)
            except OSError as error:
                logger.warning("artifact %s cannot be stored now: %s", row.id, error)


def _keep(database: Database, settings: Settings, store: Store, row: Any) -> None:
    file = left_in_run_folder(settings, row.run_id, row.path)
    stored = row.stored_at is not None or _store(database, store, row, file)
    if row.state in TERMINAL_STATES:
        _finish(database, row, file, stored)


def _store(database: Database, store: Store, row: Any, file: Path | None) -> bool:
    """False if the content is not what the engine has told; while the run is under way it may just be writing it anew."""
    if file is None:
        known = store.find(row.sha256)
        return known is not None and known.bytes == row.bytes and _mark(database, store, row, None)
    with staging(store.incoming) as staged:
        for chunk in chunks(file):
            staged.write(chunk)
        if staged.sha256 != row.sha256:
            return False
        staged.seal()
        card = model_card(staged.path)
        store.commit(staged.path, staged.sha256)
        return _mark(database, store, row, card)


def _mark(database: Database, store: Store, row: Any, card: str | None) -> bool:
    with database.write() as session:
        lock_content(session)
        if store.find(row.sha256) is None:
            return False
        same = (Artifact.id == row.id, Artifact.sha256 == row.sha256)
        return affected(session, update(Artifact).where(*same).values(stored_at=time.time(), card=card)) == 1


def _finish(database: Database, row: Any, file: Path | None, stored: bool) -> None:
    """Of a run that writes no more: its own copy goes, or it is on record that there is none that is whole."""
    changes: dict[str, Any] = {"path": None} if stored else {"missing_since": time.time()}
    if stored and file is not None:
        file.unlink()
    with database.write() as session:
        if affected(session, update(Artifact).where(Artifact.id == row.id, Artifact.sha256 == row.sha256).values(**changes)) and not stored:
            add_log_line(
                session, row.run_id, "error", "artifact", f"the file {row.path} is not the one that the engine told of, or is gone"
            )
