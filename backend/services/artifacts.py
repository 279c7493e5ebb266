"""From an artifact's opaque id to its file, which never lies outside its run's folder."""

from pathlib import Path

from sqlalchemy.orm import Session

from backend.errors import NotFoundError
from backend.models import Artifact, is_id
from backend.services.runs import find
from backend.settings import Settings


def locate(session: Session, settings: Settings, artifact_id: str) -> tuple[Artifact, Path]:
    """The artifact and its file; NotFoundError also if its run is deleted, or its path leads out of the run's folder, say by a symlink."""
    artifact = session.get(Artifact, artifact_id) if is_id(artifact_id) else None
    if artifact is None:
        raise NotFoundError(f"there is no artifact {artifact_id}")
    folder = settings.run_folder(find(session, artifact.run_id).id).resolve()
    file = (folder / artifact.path).resolve() if "\0" not in artifact.path else folder
    if not file.is_relative_to(folder) or not file.is_file():
        raise NotFoundError(f"the file of artifact {artifact_id} is gone")
    return artifact, file
