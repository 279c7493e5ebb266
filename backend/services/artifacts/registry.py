"""Artifacts: a run's files that users can download, each a version of a name, with content that the store keeps.

The row comes before the content where the engine tells of a file, and after it where a user uploads one. Content that no row refers to
is an orphan, which backend.services.artifacts.garbage_collection frees.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from backend.database import Database, affected, storable_text
from backend.errors import ConflictError, InvalidError, NotFoundError
from backend.models import Artifact, is_id
from backend.services.runs import lookup
from backend.settings import Settings
from backend.storage.staging import Staged
from backend.storage.store import DownloadContent, Store
from engine.events import ArtifactSaved
from longtail.file_chunks import chunks
from longtail.schemas.artifacts import Artifact as ArtifactReply
from longtail.schemas.artifacts import ArtifactType

CONTENT_LOCK = 0x4C55  # an advisory lock of its own


def lock_content(session: Session) -> None:
    """Until the transaction ends nobody else gives out versions, takes content for stored, or frees it (on SQLite no other writes)."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(CONTENT_LOCK)))


def record_saved(session: Session, run_id: str, event: ArtifactSaved) -> None:
    """The engine has left a file in the run's folder. Told again that changes nothing. What it replaced before it was stored is gone."""
    lock_content(session)
    path = storable_text(event.path)
    facts = {"path": path, "bytes": event.bytes, "sha256": event.sha256, "details": event.metadata, "created_at": event.time}
    latest = _latest(session, run_id, storable_text(event.name))
    if latest and (event.time < latest.created_at or event.sha256 == latest.sha256):
        return
    here = (Artifact.run_id == run_id, Artifact.path == path, Artifact.stored_at.is_not(None))
    affected(session, update(Artifact).where(*here).values(path=None))
    if latest and latest.stored_at is None and latest.path == path:
        affected(session, update(Artifact).where(Artifact.id == latest.id).values(missing_since=None, **facts))
    else:
        _add(session, latest, run_id=run_id, name=storable_text(event.name), type=event.type, **facts)


def store_upload(
    database: Database, store: Store, run_id: str, staged: Staged, name: str, kind: ArtifactType, card: str | None
) -> tuple[ArtifactReply, bool]:
    """Makes an uploaded file, which has been sealed and checked, an artifact. Says whether it is a new one: the same content under the
    same name is the same artifact."""
    store.commit(staged.path, staged.sha256)
    with database.write() as session:
        lock_content(session)
        lookup.find(session, run_id)
        if store.find(staged.sha256) is None:
            raise ConflictError("the content was freed as an orphan at this very moment; upload it again")
        same = select(Artifact).where(Artifact.run_id == run_id, Artifact.name == name, Artifact.sha256 == staged.sha256)
        known = session.scalar(same)
        if known is None:
            facts: dict[str, Any] = {"bytes": staged.bytes, "sha256": staged.sha256, "card": card}
            added = _add(session, _latest(session, run_id, name), run_id=run_id, name=name, type=kind, **facts)
        artifact = known or added
        artifact.stored_at, artifact.missing_since = artifact.stored_at or time.time(), None
        session.flush()
        return ArtifactReply.model_validate(artifact), known is None


def check_checksum(staged: Staged, expected: str) -> None:
    """InvalidError if it arrived damaged; nobody minds where nothing was expected."""
    if expected and staged.sha256 != expected:
        raise InvalidError(f"the content arrived with the SHA-256 {staged.sha256}, but X-SHA256 says {expected}; send it again")


def find(session: Session, artifact_id: str) -> Artifact:
    """NotFoundError also if its run is deleted."""
    artifact = session.get(Artifact, artifact_id) if is_id(artifact_id) else None
    if artifact is None:
        raise NotFoundError(f"there is no artifact {artifact_id}")
    lookup.find(session, artifact.run_id)
    return artifact


def content(session: Session, settings: Settings, store: Store, artifact_id: str) -> DownloadContent:
    """What there is to download, from the store or, until it is there, from the run's folder; NotFoundError if it is in neither."""
    artifact = find(session, artifact_id)
    about = artifact.name, artifact.bytes, artifact.sha256
    if artifact.stored_at is None:
        file = left_in_run_folder(settings, artifact.run_id, artifact.path)
        if file is not None and _size(file) == artifact.bytes:
            return DownloadContent(*about, partial(_read_moving, file, store, artifact.sha256))
    stored = store.find(artifact.sha256)
    if stored is not None and stored.bytes == artifact.bytes:
        return DownloadContent(*about, partial(store.read, artifact.sha256))
    raise NotFoundError(f"the file of artifact {artifact_id} is gone, or not in the store yet")


def left_in_run_folder(settings: Settings, run_id: str, path: str | None) -> Path | None:
    """The file that ``path`` names in the run's folder; None if there is none, or it leads out of it, say by a symlink."""
    folder = settings.run_folder(run_id).resolve()
    if path is None or "\0" in path:
        return None
    file = (folder / path).resolve()
    return file if file.is_relative_to(folder) and file.is_file() else None


def _size(file: Path) -> int:
    """-1 if it has just been moved to the store."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return -1


def _read_moving(file: Path, store: Store, sha256: str, start: int, end: int) -> Iterator[bytes]:
    """Of a file that may be moved to the store until it is open; a file that is open can be read to its end."""
    try:
        yield from chunks(file, start, end)
    except FileNotFoundError:
        yield from store.read(sha256, start, end)


def _latest(session: Session, run_id: str, name: str) -> Artifact | None:
    of_name = select(Artifact).where(Artifact.run_id == run_id, Artifact.name == name)
    return session.scalar(of_name.order_by(Artifact.version.desc()).limit(1))


def _add(session: Session, latest: Artifact | None, **values: Any) -> Artifact:
    artifact = Artifact(version=latest.version + 1 if latest else 1, **values)
    session.add(artifact)
    session.flush()
    return artifact
