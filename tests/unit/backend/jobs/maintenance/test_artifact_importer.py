"""From a run's folder into the store, and orphans both ways."""

import hashlib
import os
import signal
import subprocess
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forked_python.interpreter import forked_python
from fsspec.implementations.memory import MemoryFileSystem
from saved_artifacts import finish, leave
from sqlalchemy import select

from backend.database import Database
from backend.jobs.maintenance.artifact_importer import import_artifacts
from backend.models import Artifact, LogLine, Run
from backend.services.artifacts import registry
from backend.services.artifacts.garbage_collection import FEW, collect_garbage
from backend.services.artifacts.registry import record_saved
from backend.settings import Settings
from backend.storage.folder_store import FolderStore
from backend.storage.open_store import open_store
from backend.storage.remote_store import RemoteStore
from backend.storage.store import Store
from engine.events import ArtifactSaved

HOUR = 3600.0


@pytest.fixture(params=["", "memory"])
def settings(settings: Settings, request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"artifact_store": request.param and f"memory://{tmp_path}"})


@pytest.fixture
def store(settings: Settings) -> Store:
    return open_store(settings)


def rows(database: Database) -> list[Artifact]:
    with database.read() as session:
        return list(session.scalars(select(Artifact).order_by(Artifact.name, Artifact.version)))


def age(store: Store, hours: float, *contents: bytes) -> None:
    for content in contents:
        digest = hashlib.sha256(content).hexdigest()
        if isinstance(store, FolderStore):
            os.utime(store._path(digest), (time.time() - hours * HOUR,) * 2)
        else:
            assert isinstance(store, RemoteStore)
            MemoryFileSystem.store[store._path(digest)].created = datetime.fromtimestamp(time.time() - hours * HOUR, UTC)


def test_a_reader_follows_a_file_that_is_moved_into_the_store(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    file = leave(database, settings, run_id, b"weights")
    with database.read() as session:
        before = session.get_one(Artifact, rows(database)[0].id)
        found = registry.content(session, settings, store, before.id)
        finish(database, run_id)
        import_artifacts(database, settings, store)
        assert (before.stored, file.exists()) == (False, False), "this reader has the row as it was"
        again = registry.content(session, settings, store, before.id)
    assert [b"".join(each.read(2, found.size)) for each in (found, again)] == [b"ights"] * 2


def test_a_file_moves_into_the_store_when_its_run_is_over(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    file = leave(database, settings, run_id, b"weights")
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.stored, row.path, file.exists()) == (True, "artifacts/drafter.zip", True), "the engine may still want it"
    assert b"".join(store.read(row.sha256)) == b"weights"
    finish(database, run_id)
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.stored, row.path, row.missing, file.exists()) == (True, None, False, False)
    assert list(store.incoming.iterdir()) == []


def test_the_card_is_read_on_the_way(database: Database, settings: Settings, store: Store, run_id: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("drafter/README.md", "# Drafter for tiny")
    leave(database, settings, run_id, (tmp_path / "a.zip").read_bytes())
    import_artifacts(database, settings, store)
    with database.read() as session:
        assert session.scalars(select(Artifact.card)).all() == ["# Drafter for tiny"]


def test_other_content_is_the_next_version(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    for content in (b"one", b"two", b"two"):
        leave(database, settings, run_id, content)
        import_artifacts(database, settings, store)
    first, second = rows(database)
    assert [(row.version, row.stored, row.path) for row in (first, second)] == [(1, True, None), (2, True, "artifacts/drafter.zip")]
    finish(database, run_id)
    import_artifacts(database, settings, store)
    assert [b"".join(store.read(row.sha256)) for row in rows(database)] == [b"one", b"two"]


def test_what_was_replaced_before_it_was_stored_is_no_version(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    leave(database, settings, run_id, b"one")
    (before,) = rows(database)
    leave(database, settings, run_id, b"two")
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.id, row.version, b"".join(store.read(row.sha256))) == (before.id, 1, b"two")


@pytest.mark.parametrize("gone", [True, False])
def test_a_file_that_is_not_what_was_told_is_missing_once_the_run_is_over(
    database: Database, settings: Settings, store: Store, run_id: str, gone: bool
) -> None:
    file = leave(database, settings, run_id, b"damaged", said=b"whole")
    if gone:
        file.unlink()
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.stored, row.missing) == (False, False), "an attempt may just be writing it anew"
    finish(database, run_id)
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.stored, row.missing, list(store.objects())) == (False, True, [])
    with database.read() as session:
        assert session.scalars(select(LogLine.code).where(LogLine.run_id == run_id)).all() == ["artifact"]


def test_another_machine_s_files_are_its_own_business(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    file = leave(database, settings, run_id, b"weights")
    finish(database, run_id)
    elsewhere = settings.model_copy(update={"home": settings.home.with_name("other")})
    import_artifacts(database, elsewhere, store)
    (row,) = rows(database)
    assert (row.stored, row.missing, file.exists()) == (False, False, True)


@pytest.mark.parametrize("path", ["../../secret", "link", "/etc/hostname"])
def test_nothing_is_taken_from_outside_of_the_folder(
    database: Database, settings: Settings, store: Store, run_id: str, path: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (settings.home / "secret").parent.mkdir(exist_ok=True)
    (settings.home / "secret").write_bytes(b"secret")
    settings.run_folder(run_id).mkdir(parents=True)
    (settings.run_folder(run_id) / "link").symlink_to(secret)
    digest = hashlib.sha256(b"secret").hexdigest()
    with database.write() as session:
        record_saved(session, run_id, ArtifactSaved(name="a.txt", type="policy", path=path, bytes=6, sha256=digest))
    finish(database, run_id)
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.missing, list(store.objects()), secret.exists(), (settings.home / "secret").exists()) == (True, [], True, True)


def test_content_goes_with_the_last_artifact_that_has_it(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    leave(database, settings, run_id, b"shared", "a.zip")
    leave(database, settings, run_id, b"shared", "b.zip")
    import_artifacts(database, settings, store)
    age(store, 48, b"shared")
    for left in (1, 0):
        with database.write() as session:
            session.delete(session.scalars(select(Artifact).limit(1)).one())
        collect_garbage(database, settings, store)
        assert len(list(store.objects())) == left


def test_young_orphans_are_left_alone(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    leave(database, settings, run_id, b"weights")
    import_artifacts(database, settings, store)
    with database.write() as session:
        session.delete(session.scalars(select(Artifact)).one())
    assert collect_garbage(database, settings, store).freed == []
    age(store, settings.orphan_hours + 1, b"weights")
    assert len(collect_garbage(database, settings, store).freed) == 1


def test_a_strange_database_frees_nothing(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    contents = [bytes([number]) for number in range(FEW + 1)]
    for number, content in enumerate(contents):
        leave(database, settings, run_id, content, f"{number}.zip")
    import_artifacts(database, settings, store)
    age(store, 48, *contents)
    with database.write() as session:
        session.delete(session.get_one(Run, run_id))
    found = collect_garbage(database, settings, store)
    assert (found.doubtful, len(found.orphans), found.freed) == (True, FEW + 1, [])
    assert len(collect_garbage(database, settings, store, sure=True).freed) == FEW + 1


def test_an_artifact_without_content_says_so_until_it_is_back(database: Database, settings: Settings, store: Store, run_id: str) -> None:
    file = leave(database, settings, run_id, b"weights")
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    store.remove(row.sha256)
    assert collect_garbage(database, settings, store).missing == [row.id]
    assert rows(database)[0].missing
    assert collect_garbage(database, settings, store).missing == [], "told once"
    copy = store.incoming / "a.part"
    copy.write_bytes(file.read_bytes())
    store.commit(copy, row.sha256)
    assert collect_garbage(database, settings, store).back == [row.id]
    assert not rows(database)[0].missing


KILLED = """if True:
    import os, signal, sys
    from backend.database import Database
    from backend.jobs.maintenance import artifact_importer
    from backend.settings import Settings
    from backend.storage.folder_store import FolderStore
    from backend.storage.open_store import open_store
    def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
    settings = Settings()
    database = Database(settings.database)
    point = sys.argv[1]
    if point == "mid-copy":
        inner = artifact_importer.chunks
        def chunks(path):
            for number, chunk in enumerate(inner(path)):
                if number == 2: die()
                yield chunk
        artifact_importer.chunks = chunks
    elif point == "before-commit":
        FolderStore.commit = die
    elif point == "between-content-and-row":
        artifact_importer._mark = die
    elif point == "before-the-copy-goes":
        artifact_importer._finish = die
    artifact_importer.import_artifacts(database, settings, open_store(settings))
"""


@pytest.mark.parametrize("settings", [""], indirect=True)
@pytest.mark.parametrize("point", ["mid-copy", "before-commit", "between-content-and-row", "before-the-copy-goes"])
def test_a_kill_leaves_no_half_artifact(database: Database, settings: Settings, run_id: str, point: str) -> None:
    store = open_store(settings)
    content = os.urandom(5 * 2**20)
    file = leave(database, settings, run_id, content)
    finish(database, run_id)
    environment = os.environ | {"LONGTAIL_HOME": str(settings.home), "LONGTAIL_DATABASE_URL": settings.database}
    python = forked_python("backend.jobs.maintenance.artifact_importer", "backend.storage.open_store")
    killed = subprocess.run([python, "-c", KILLED, point], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    (row,) = rows(database)
    assert (row.stored, row.missing) == (point == "before-the-copy-goes", False)
    for stored in store.objects():
        assert b"".join(store.read(stored.sha256)) == content, "whole or not there"
    assert len(list(store.incoming.glob("*.part"))) == (point in ("mid-copy", "before-commit"))
    import_artifacts(database, settings, store)
    (row,) = rows(database)
    assert (row.stored, row.path, file.exists(), len(list(store.objects()))) == (True, None, False, 1)
    for part in store.incoming.glob("*.part"):
        os.utime(part, (0, 0))
    collect_garbage(database, settings, store)
    assert list(store.incoming.glob("*.part")) == []
