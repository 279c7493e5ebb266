"""``longtail backup``: while the platform runs. First the database as of one moment, then the files that its rows tell of."""

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from backend.backup.archive import BackupError, Chunks, Writer, writing
from backend.backup.database_rows import dump, snapshot
from backend.database import Database
from backend.migrate import at_head, revision
from backend.models import Artifact, Run
from backend.services.artifacts.registry import left_in_run_folder
from backend.services.runs.clone_and_retry import hard_link
from backend.settings import Settings
from backend.storage.open_store import open_store
from backend.storage.store import Store
from engine.checkpoint.run_folder import CHECKPOINTS, PRETRAINING, STOP
from engine.checkpoint.verification import listed, newest
from engine.errors import CheckpointError

TOKEN = "token"
TRIES = 3
ARTIFACTS = select(Artifact.id, Artifact.run_id, Artifact.path, Artifact.sha256, Artifact.stored_at)


def make(settings: Settings, target: Path) -> tuple[Path, dict[str, Any]]:
    """The backup's path (``target``, or a new file in it if that is a folder) and its facts. BackupError if it cannot be made."""
    path = target / f"longtail-{time.strftime('%Y%m%d-%H%M%S')}.tar" if target.is_dir() else target
    if path.exists():
        raise BackupError(f"{path} exists; a backup replaces nothing")
    database, store = Database(settings.database), open_store(settings)
    try:
        if not at_head(database):
            raise BackupError("the database is not of this version; run: python -m backend.migrate")
        facts: dict[str, Any] = {"version": version("longtail"), "made_at": time.time(), "rows": {}, "missing": []}
        with writing(path, facts) as archive:
            with snapshot(database) as connection:
                facts["revision"] = revision(connection)
                runs = connection.execute(select(Run.id, Run.state)).all()
                artifacts = connection.execute(ARTIFACTS).all()
                _add_rows(archive, connection, facts["rows"])
            for run_id, state in runs:
                _add_run(archive, settings, run_id, goes_on=state != "succeeded")
            if settings.token_file.is_file():
                archive.add_file(TOKEN, settings.token_file)
            for row in artifacts:
                _add_artifact(archive, settings, store, row, facts["missing"])
        return path, facts | {"files": len(archive.files), "bytes": path.stat().st_size}
    except OSError as error:
        raise BackupError(f"the backup could not be made, try again: {error}") from None
    finally:
        database.close()


def _add_rows(archive: Writer, connection: Connection, counted: dict[str, int]) -> None:
    for number, (table, columns, lines) in enumerate(dump(connection)):
        head = f'{{"table":"{table}","columns":{json.dumps(columns)}}}\n'.encode()
        archive.add_bytes(f"rows/{number:06d}.jsonl", head + lines)
        counted[table] = counted.get(table, 0) + lines.count(b"\n")


def _add_artifact(archive: Writer, settings: Settings, store: Store, row: Any, missing: list[str]) -> None:
    """From its run's folder if it was only there when the database was read, and has not been moved into the store meanwhile."""
    file = left_in_run_folder(settings, row.run_id, row.path) if row.stored_at is None else None
    name = f"artifacts/{row.sha256}" if file is None else f"runs/{row.run_id}/{row.path}"
    if name in archive.files:
        return
    if file is not None:
        archive.add_file(name, file)
    elif stored := store.find(row.sha256):
        archive.add(name, Chunks(store.read(row.sha256)), stored.bytes)
    else:
        missing.append(row.id)


def _add_run(archive: Writer, settings: Settings, run_id: str, goes_on: bool) -> None:
    """The checkpoint before the events: these tell at least of every step that is in that."""
    folder = settings.run_folder(run_id)
    for saved in (CHECKPOINTS, PRETRAINING) if goes_on else ():
        with _pinned(settings, folder / saved) as aside:
            for file in sorted(aside.rglob("*")):
                if file.is_file():
                    archive.add_file(f"runs/{run_id}/{saved}/{file.relative_to(aside)}", file)
    for file in sorted(folder.glob("[!.]*")):
        if file.is_file() and not file.is_symlink() and file.name != STOP:
            archive.add_file(f"runs/{run_id}/{file.name}", file)


@contextmanager
def _pinned(settings: Settings, checkpoints: Path) -> Iterator[Path]:
    """A folder with the newest checkpoint that verifies, if there is one, under a second name: an engine may remove it meanwhile."""
    aside = settings.home / f".backup-{secrets.token_hex(4)}"
    try:
        _pin(checkpoints, aside)
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _pin(checkpoints: Path, aside: Path) -> None:
    for _ in range(TRIES):
        for path in reversed(listed(checkpoints)):
            try:
                shutil.copytree(path, aside / path.name, copy_function=hard_link)
                newest(aside)
                return
            except (OSError, CheckpointError):  # just being removed, or damaged: the next older one
                shutil.rmtree(aside, ignore_errors=True)
