"""Files that a run leaves in its folder."""

import hashlib
from pathlib import Path

from sqlalchemy import update

from backend.database import Database
from backend.models import Run
from backend.services.artifacts.registry import record_saved
from backend.settings import Settings
from engine.events import ArtifactSaved


def leave(
    database: Database, settings: Settings, run_id: str, content: bytes, name: str = "drafter.zip", said: bytes | None = None
) -> Path:
    """What an engine does: the file, then the event."""
    file = settings.run_folder(run_id) / "artifacts" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    digest = hashlib.sha256(said or content).hexdigest()
    event = ArtifactSaved(name=name, type="drafter", path=f"artifacts/{name}", bytes=len(content), sha256=digest)
    with database.write() as session:
        record_saved(session, run_id, event)
    return file


def finish(database: Database, run_id: str) -> None:
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run_id).values(state="succeeded"))
