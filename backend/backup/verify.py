"""``longtail verify``: whether what the database tells of is on disk, whole, and nothing else; and what to do where it is not."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import SQLAlchemyError

from backend.database import Database
from backend.migrate import at_head
from backend.models import Artifact, Run
from backend.services.artifacts.garbage_collection import collect_garbage, find_garbage
from backend.settings import Settings
from backend.storage.open_store import open_store
from backend.storage.store import Store
from engine.checkpoint.run_folder import CHECKPOINTS, EVENTS, PRETRAINING
from engine.checkpoint.verification import newest
from engine.errors import CheckpointError
from longtail.schemas.runs import TERMINAL_STATES


@dataclass(frozen=True)
class Fault:
    what: str
    remedy: str


def verify(settings: Settings, checksums: bool = True, repair: bool = False) -> Iterator[Fault]:
    """What is wrong, as it is found; with ``repair`` orphans are freed and missing files marked first. Changes nothing else."""
    store = open_store(settings)
    with closing(Database(settings.database)) as database:
        faults = list(_of_database(database))
        yield from faults
        if not faults:
            if repair:
                collect_garbage(database, settings, store, sure=True)
            yield from _of_artifacts(database, settings, store, checksums)
            yield from _of_runs(database, settings)


def _of_database(database: Database) -> Iterator[Fault]:
    try:
        if not at_head(database):
            yield Fault("the database is not of this version", "run: python -m backend.migrate")
            return
        with database.reader.connect() as connection:
            yield from _of_pages(connection)
    except SQLAlchemyError as error:
        yield Fault(f"the database cannot be read: {str(error).splitlines()[0]}", "look at LONGTAIL_DATABASE_URL, or restore a backup")


def _of_pages(connection: Connection) -> Iterator[Fault]:
    if connection.dialect.name == "sqlite":
        for (said,) in connection.execute(text("PRAGMA integrity_check(10)")):
            if said != "ok":
                yield Fault(f"the database is damaged: {said}", "restore a backup")
        for row in connection.execute(text("PRAGMA foreign_key_check")):
            yield Fault(f"a row of {row[0]} belongs to a row of {row[2]} that is not there", "restore a backup")


def _of_artifacts(database: Database, settings: Settings, store: Store, checksums: bool) -> Iterator[Fault]:
    found = find_garbage(database, settings, store)
    for sha256 in found.orphans:
        more = "; they are many: first make sure that this is the right database" if found.doubtful else ""
        yield Fault(f"content {sha256} belongs to no artifact", f"workers free it; at once: longtail verify --repair{more}")
    for artifact_id in found.back:
        yield Fault(f"artifact {artifact_id} is marked as missing, but is there", "longtail verify --repair")
    with database.read() as session:
        rows = session.execute(select(Artifact.id, Artifact.run_id, Artifact.sha256, Artifact.stored_at, Artifact.missing_since)).all()
    damaged = {sha256: checksums and _is_damaged(store, sha256) for sha256 in {row.sha256 for row in rows if row.stored_at}}
    remedy = "take it from a backup, or delete the artifact"
    for row in rows:
        name = f"artifact {row.id} of run {row.run_id}"
        if row.id in found.missing or (row.missing_since and row.id not in found.back):
            yield Fault(f"{name} is missing: content {row.sha256} is not there or has another size", remedy)
        elif damaged.get(row.sha256):
            yield Fault(f"{name} is damaged: its content is not {row.sha256} any more", remedy)


def _is_damaged(store: Store, sha256: str) -> bool:
    if store.find(sha256) is None:
        return False
    digest = hashlib.sha256()
    for chunk in store.read(sha256):
        digest.update(chunk)
    return digest.hexdigest() != sha256


def _of_runs(database: Database, settings: Settings) -> Iterator[Fault]:
    with database.read() as session:
        runs = session.execute(select(Run.id, Run.state, Run.events_offset)).all()
    for run_id, state, offset in runs:
        folder = settings.run_folder(run_id)
        if offset and not folder.is_dir():
            yield Fault(f"run {run_id}: its folder {folder} is not there", "verify on the host that has it, or take it from a backup")
            continue
        events = folder / EVENTS
        if offset > (events.stat().st_size if events.is_file() else 0):
            yield Fault(f"run {run_id}: {events} is shorter than what was read of it", "take the file from a backup before the run goes on")
        if state not in TERMINAL_STATES:
            try:
                newest(folder / CHECKPOINTS)
                newest(folder / PRETRAINING)
            except CheckpointError as error:
                yield Fault(f"run {run_id} is {state}, but {error}", "cancel it, or take the run's folder from a backup")
    known = {row[0] for row in runs}
    for folder in settings.runs.glob("[!.]*"):
        if folder.name not in known:
            yield Fault(f"{folder} belongs to no run", "delete it, once you are sure that this is the right database")
