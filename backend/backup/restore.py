"""``longtail restore``: a whole platform from a backup, into an empty home and an empty database of either kind."""

import json
import time
from contextlib import closing, suppress
from pathlib import Path, PurePosixPath

from sqlalchemy import Connection, delete, make_url, select

from backend.backup.archive import Archive, BackupError
from backend.backup.create import TOKEN
from backend.backup.database_rows import clear, is_empty, load, renumber
from backend.database import Database, affected
from backend.migrate import downgrade, is_known, upgrade
from backend.models import Run, Worker
from backend.services.runs.attempts import Outcome, settle
from backend.services.runs.lifecycle import CARRIED
from backend.settings import Settings
from backend.stack.home_folder import LOCK, lock_home
from backend.storage.open_store import open_store
from backend.storage.staging import staging
from longtail.schemas.credentials import write_private


def restore(settings: Settings, file: Path, force: bool = False) -> dict[str, int]:
    """The rows by table. Every checksum is verified before anything is touched, and the database comes last.

    BackupError if home or database hold anything, unless ``force``: then what is in home is put aside, in a folder there, and the rows of
    a PostgreSQL database are dropped. StackError if a platform runs from this home.
    """
    with Archive(file) as archive:
        if not is_known(archive.manifest["revision"]):
            raise BackupError(f"{file} is of a newer version ({archive.manifest['version']}) of Longtail; install that")
        archive.check()
        with lock_home(settings):
            _make_room(settings, force)
            _restore_files(archive, settings)
            return _restore_rows(archive, settings)


def _make_room(settings: Settings, force: bool) -> None:
    taken = sorted(path for path in settings.home.iterdir() if path.name != LOCK)
    if taken and not force:
        raise BackupError(f"{settings.home} is not empty; set LONGTAIL_HOME to a new folder, or say --force to put aside what is there")
    if _is_server(settings) or _sqlite_file(settings).exists():
        with closing(Database(settings.database)) as database:
            empty = is_empty(database)
        if not empty and not force:
            raise BackupError("the database is not empty; name a new one in LONGTAIL_DATABASE_URL, or say --force to lose what is in it")
    if taken:
        aside = settings.home / f"before-restore-{time.strftime('%Y%m%d-%H%M%S')}"
        aside.mkdir()
        for path in taken:
            path.rename(aside / path.name)


def _restore_files(archive: Archive, settings: Settings) -> None:
    store = open_store(settings)
    for name in archive.below("runs"):
        path = settings.home / _harmless(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(archive.read(name))
    for name in archive.below("artifacts"):
        with staging(store.incoming) as staged:
            for chunk in archive.read(name):
                staged.write(chunk)
            staged.seal()
            store.commit(staged.path, staged.sha256)
    if TOKEN in archive.files:
        write_private(settings.token_file, b"".join(archive.read(TOKEN)).decode())


def _restore_rows(archive: Archive, settings: Settings) -> dict[str, int]:
    if _is_server(settings):
        return _fill(archive, settings.database)
    final = _sqlite_file(settings)
    aside = final.with_name(f"{final.name}.restoring")
    aside.unlink(missing_ok=True)
    counted = _fill(archive, f"sqlite:///{aside}")
    if final.exists():
        final.rename(final.with_name(f"{final.name}.before-restore-{time.strftime('%Y%m%d-%H%M%S')}"))
    for rest in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            final.with_name(final.name + rest).unlink()
    aside.rename(final)
    return counted


def _fill(archive: Archive, url: str) -> dict[str, int]:
    """In the schema that the rows are of, which is then brought to that of this version."""
    with closing(Database(url)) as database:
        downgrade(database)
        upgrade(database, archive.manifest["revision"])
        with database.writer.begin() as connection:
            clear(connection)
            counted = _load(archive, connection)
            renumber(connection)
        if counted != archive.manifest["rows"]:
            raise BackupError(f"{archive.path}: rows are missing")
        upgrade(database)
        _begin_anew(database)
        return counted


def _load(archive: Archive, connection: Connection) -> dict[str, int]:
    counted: dict[str, int] = {}
    for name in archive.below("rows"):
        head, _, lines = b"".join(archive.read(name)).partition(b"\n")
        about = json.loads(head)
        counted[about["table"]] = counted.get(about["table"], 0) + load(connection, about["table"], about["columns"], lines)
    return counted


def _begin_anew(database: Database) -> None:
    """Runs that workers had go on from their checkpoints. These workers may still run, elsewhere, on the original. A script goes on to
    tell of its run, or is found to be silent."""
    with database.write() as session:
        for run in session.scalars(select(Run).where(CARRIED)).all():
            settle(session, run.id, run.attempt, Outcome("handed_over", error="the platform was restored from a backup"), max_retries=0)
        affected(session, delete(Worker))


def _is_server(settings: Settings) -> bool:
    return make_url(settings.database).get_backend_name() != "sqlite"


def _sqlite_file(settings: Settings) -> Path:
    return Path(make_url(settings.database).database or "")


def _harmless(name: str) -> str:
    """BackupError for a name that leads elsewhere, as in a backup that somebody has made up."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise BackupError(f"{name!r} in the backup leads out of the home")
    return name
