"""A backup is worth what can be restored from it: here it is restored, and the API starts on it."""

import hashlib
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from new_token import NewToken
from postgres_for_tests import Postgres
from saved_artifacts import finish, leave
from sqlalchemy import func, insert, inspect, select, update
from typer.testing import CliRunner

from backend import cli
from backend.api import create_app
from backend.backup import database_rows as backup_rows
from backend.backup.archive import Archive, BackupError, writing
from backend.backup.create import make
from backend.backup.restore import restore
from backend.backup.verify import verify
from backend.database import Database
from backend.jobs.maintenance.artifact_importer import import_artifacts
from backend.migrate import downgrade, upgrade
from backend.models import Artifact, Base, LogLine, Metric, Project, Run, Worker
from backend.services.identity.first_admin import ensure_admin
from backend.services.runs import submission, tracking
from backend.services.runs.attempts import add_log_line, claim
from backend.settings import Settings
from backend.stack.child_process import StackError
from backend.stack.home_folder import lock_home
from backend.storage.folder_store import FolderStore
from backend.storage.open_store import open_store
from engine.checkpoint import storage
from engine.config import RunConfig
from longtail.schemas.projects import DEFAULT_PROJECT
from longtail.schemas.tracking import Tracked


@pytest.fixture(params=["sqlite", "postgresql"])
def restored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """Another home, with an empty database of either kind."""
    home = tmp_path / "restored"
    if request.param == "sqlite":
        yield Settings(home=home, least_free_bytes=0)
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database() as url:
        yield Settings(home=home, database_url=url, least_free_bytes=0)


@pytest.fixture
def steps() -> int:
    """That the run under way has told of its loss."""
    return 50


@pytest.fixture
def furnished(database: Database, settings: Settings, run_id: str, steps: int) -> str:
    """The id of a run under way, at step 7, beside one that is over; artifacts stored and not; logs, metrics, an admin."""
    ensure_admin(database, settings)
    with database.write() as session:
        claimed = claim(session, run_id, "b" * 16, 60)
        assert claimed is not None
        session.add(Worker(id="b" * 16, host="here", pid=1, pid_started=1))
        other, _ = submission.submit(session, RunConfig(name="Grüße \\ \" '"), submission.SubmissionOptions(tags=("x",)))
        add_log_line(session, other.id, "info", "a", "b")
        points = [{"run_id": run_id, "key": "loss", "step": step, "value": None if step == 3 else step / 3} for step in range(steps)]
        session.execute(insert(Metric), points)
        other_id = other.id
    leave(database, settings, other_id, b"stored")
    finish(database, other_id)
    import_artifacts(database, settings, open_store(settings))
    leave(database, settings, run_id, b"not stored")
    folder = settings.run_folder(run_id)
    (folder / "events.jsonl").write_text('{"kind":"log"}\n')
    (folder / "stop").touch()
    for step in (6, 7):
        storage.save(folder / "checkpoints", step, {"state.json": step})
    storage.save(folder / "checkpoints", 8, {"state.json": 8})
    (folder / "checkpoints/step_000008/state.json").write_text("damaged")
    return run_id


def content(database: Database) -> dict[str, list[str]]:
    with database.read() as session:
        return {
            table.name: sorted(json.dumps(list(row)) for row in session.execute(select(table)))
            for table in Base.metadata.sorted_tables
            if table.name not in ("runs", "attempts", "workers", "logs")
        }


@pytest.mark.parametrize("steps", [10_500])
def test_a_platform_comes_back_from_a_backup(
    database: Database, settings: Settings, restored: Settings, furnished: str, tmp_path: Path, new_token: NewToken, steps: int
) -> None:
    """With more rows than are read at a time."""
    token = new_token("admin", "me")
    path, facts = make(settings, tmp_path / "backup.tar")
    assert (facts["missing"], facts["rows"]["metrics"], facts["rows"]["runs"]) == ([], steps, 2)
    assert path.stat().st_mode & 0o077 == 0
    assert restore(restored, path) == facts["rows"]
    other = Database(restored.database)
    assert content(other) == content(database)
    with other.read() as session:
        run = session.get_one(Run, furnished)
        assert (run.state, run.attempt, run.losses) == ("queued", 1, 0)
        assert session.scalars(select(LogLine.code).order_by(LogLine.id)).all() == ["a", "handed_over"], "a new line gets a new number"
        assert session.scalars(select(Worker)).all() == []
    folder = restored.run_folder(furnished)
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    whole = {f"checkpoints/step_000007/{name}" for name in ("state.json", "manifest.json")}
    assert files == whole | {"events.jsonl", "artifacts/drafter.zip"}
    assert restored.token_file.read_text() == settings.token_file.read_text()
    assert list(verify(restored)) == []
    with TestClient(create_app(restored), base_url="http://localhost", headers={"Authorization": f"Bearer {token}"}) as api:
        names = [run["name"] for run in api.get("/api/v1/runs").json()["items"]]
        assert sorted(names) == sorted(["first", "Grüße \\ \" '"])
        for run in api.get("/api/v1/runs").json()["items"]:
            (artifact,) = api.get(f"/api/v1/runs/{run['id']}/artifacts").json()["items"]
            downloaded = api.get(f"/api/v1/artifacts/{artifact['id']}/download").content
            assert hashlib.sha256(downloaded).hexdigest() == artifact["sha256"]
    other.close()


def test_a_run_that_a_script_tells_of_is_still_under_way_in_a_restored_platform(
    database: Database, settings: Settings, restored: Settings, tmp_path: Path
) -> None:
    with database.write() as session:
        project = session.get_one(Project, DEFAULT_PROJECT)
        tracked, _ = tracking.begin(session, Tracked(name="a script's"), project, "somebody", None, 60.0)
        run_id = tracked.id
    path, _ = make(settings, tmp_path / "backup.tar")
    restore(restored, path)
    with closing(Database(restored.database)) as other, other.read() as session:
        assert session.get_one(Run, run_id).state == "running"


def test_a_backup_of_a_busy_database_is_of_one_moment(
    database: Database, settings: Settings, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of rows in two tables are written all the while: each pair is in the backup whole, or not at all."""
    stop, written, dump = threading.Event(), threading.Event(), backup_rows.dump

    def write() -> None:
        for step in range(100_000):
            if stop.is_set():
                return
            with database.write() as session:
                session.add(Metric(run_id=run_id, key="pair", step=step, value=0.0))
                add_log_line(session, run_id, "info", "pair", str(step))
            written.set()

    def slowly(connection):  # type: ignore[no-untyped-def]
        for part in dump(connection):
            await_pair()
            yield part

    def await_pair() -> None:
        written.clear()
        assert written.wait(60)

    monkeypatch.setattr("backend.backup.create.dump", slowly)
    writer = threading.Thread(target=write)
    writer.start()
    await_pair()
    path, facts = make(settings, tmp_path / "backup.tar")
    stop.set()
    writer.join()
    assert facts["rows"]["metrics"] == facts["rows"]["logs"] > 0
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Metric)) > facts["rows"]["metrics"]
    Archive(path).check()


@pytest.mark.usefixtures("furnished")
def test_a_backup_of_an_older_version_is_brought_up(settings: Settings, restored: Settings, tmp_path: Path) -> None:
    path, _ = make(settings, tmp_path / "backup.tar")
    old = tmp_path / "old.tar"
    older = Database(f"sqlite:///{tmp_path}/older.db")
    upgrade(older, "0005")
    _rewrite(path, old, "0005", older)
    older.close()
    restore(restored, old)
    other = Database(restored.database)
    with other.read() as session:
        assert session.scalar(select(func.count()).select_from(Run)) == 2
        assert session.scalars(select(Artifact.version)).all() == [1, 1]
    other.close()


def _rewrite(path: Path, target: Path, revision: str, older: Database | None = None) -> None:
    """The archive as another version would have written it: without the tables and columns that ``older`` does not have."""
    with Archive(path) as archive:
        facts = {name: value for name, value in archive.manifest.items() if name not in ("files", "format")}
        if older is not None:
            facts["rows"] = {table: count for table, count in facts["rows"].items() if inspect(older.reader).has_table(table)}
        with writing(target, facts | {"revision": revision}) as writer:
            for name in archive.files:
                data = b"".join(archive.read(name))
                if older is not None and name.startswith("rows/"):
                    if not inspect(older.reader).has_table(json.loads(data.splitlines()[0])["table"]):
                        continue
                    data = _without_what_came_later(data, older)
                writer.add_bytes(name, data)


def _without_what_came_later(data: bytes, older: Database) -> bytes:
    head, *lines = map(json.loads, data.splitlines())
    known = {column["name"] for column in inspect(older.reader).get_columns(head["table"])}
    rows = [{name: value for name, value in zip(head["columns"], row, strict=True) if name in known} for row in lines]
    if head["table"] == "artifacts":
        rows = [row | {"path": row["path"] or "in the store now"} for row in rows]
    head["columns"] = list(rows[0])
    return "".join(json.dumps(line) + "\n" for line in [head, *(list(row.values()) for row in rows)]).encode()


@pytest.mark.usefixtures("furnished")
def test_nothing_is_restored_over_what_is_there(settings: Settings, restored: Settings, tmp_path: Path) -> None:
    path, facts = make(settings, tmp_path / "backup.tar")
    with lock_home(restored), pytest.raises(StackError, match="just starting"):
        restore(restored, path)
    restored.home.joinpath("mine").write_text("precious")
    with pytest.raises(BackupError, match="not empty"):
        restore(restored, path)
    assert sorted(file.name for file in restored.home.iterdir()) == ["mine", "stack.lock"]
    assert restore(restored, path, force=True) == facts["rows"]
    (aside,) = restored.home.glob("before-restore-*")
    assert (aside / "mine").read_text() == "precious"
    elsewhere = restored.model_copy(update={"home": tmp_path / "third", "database_url": restored.database})
    with pytest.raises(BackupError, match="the database is not empty"):
        restore(elsewhere, path)
    assert restore(elsewhere, path, force=True) == facts["rows"]
    assert list(verify(elsewhere)) == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "no manifest", "none", "newer", "format"])
@pytest.mark.usefixtures("furnished")
def test_a_damaged_backup_restores_nothing(settings: Settings, tmp_path: Path, damage: str) -> None:
    restored = Settings(home=tmp_path / "restored")
    path, _ = make(settings, tmp_path / "backup.tar")
    data = bytearray(path.read_bytes())
    place = data.index(b"not stored")
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "flipped":
            data[place] ^= 1
            path.write_bytes(data)
        case "no manifest":
            path.write_bytes(data.replace(b"manifest.json", b"manifesT.json"))
        case "none":
            path.write_bytes(b"no tar at all")
        case "newer":
            _rewrite(path, tmp_path / "newer.tar", "9999")
            path = tmp_path / "newer.tar"
        case "format":
            path.write_bytes(data.replace(b'{"format": 1', b'{"format": 7'))
    with pytest.raises(BackupError):
        restore(restored, path)
    assert not restored.home.exists() or list(restored.home.iterdir()) == []


def test_a_made_up_backup_writes_nowhere_else(settings: Settings, furnished: str, tmp_path: Path) -> None:
    restored = Settings(home=tmp_path / "restored")
    path, _ = make(settings, tmp_path / "backup.tar")
    made_up = tmp_path / "made-up.tar"
    data = path.read_bytes()
    name = f"runs/{furnished}/events.jsonl"
    evil = "runs/../../" + "x" * (len(name) - 11)
    with Archive(path) as archive:
        assert name in archive.files
    old, new = name.encode(), evil.encode()
    made_up.write_bytes(_with_sums(data.replace(old, new)))
    with pytest.raises(BackupError, match="leads out of the home"):
        restore(restored, made_up)
    assert not list(tmp_path.glob("x*"))


def _with_sums(data: bytes) -> bytes:
    """A tar whose headers have been changed, with their checksums put right."""
    blocks = [bytearray(data[at : at + 512]) for at in range(0, len(data), 512)]
    for block in blocks:
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
    return b"".join(blocks)


@pytest.mark.usefixtures("furnished")
def test_a_backup_is_whole_or_not_there(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.tar").write_text("mine")
    with pytest.raises(BackupError, match="replaces nothing"):
        make(settings, tmp_path / "there.tar")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("backend.backup.create._add_run", full)
    with pytest.raises(BackupError, match="No space left"):
        make(settings, tmp_path / "backup.tar")
    assert [file.name for file in tmp_path.glob("*.tar*")] == ["there.tar"]
    assert list(tmp_path.glob(".*.partial")) == []
    assert list(settings.home.glob(".backup-*")) == []


def test_verify_says_what_is_wrong(database: Database, settings: Settings, furnished: str) -> None:
    def said(**options: bool) -> str:
        return "\n".join(f"{fault.what} -> {fault.remedy}" for fault in verify(settings, **options))

    store = open_store(settings)
    assert isinstance(store, FolderStore)
    assert said() == ""
    digest = hashlib.sha256(b"stored").hexdigest()
    store._path(digest).write_bytes(b"STORED")
    assert (said(checksums=False), "is damaged" in said()) == ("", True)
    store.remove(digest)
    assert "is missing" in said()
    orphan = hashlib.sha256(b"orphan").hexdigest()
    with (store.incoming / "x.part").open("wb") as file:
        file.write(b"orphan")
    store.commit(store.incoming / "x.part", orphan)
    os.utime(store._path(orphan), (0, 0))
    assert f"content {orphan} belongs to no artifact" in said()
    assert "belongs to no artifact" not in said(repair=True)
    assert store.find(orphan) is None
    (settings.runs / "stranger").mkdir()
    assert "stranger belongs to no run" in said()
    with database.write() as session:
        session.execute(update(Run).where(Run.id == furnished).values(events_offset=10_000))
    assert "is shorter than what was read of it" in said()
    for step in (6, 7):
        (settings.run_folder(furnished) / f"checkpoints/step_{step:06d}/state.json").write_text("damaged")
    assert "no checkpoint is usable" in said()
    downgrade(database, "0005")
    assert "python -m backend.migrate" in said()
    upgrade(database)


@pytest.mark.usefixtures("furnished")
def test_from_a_shell(settings: Settings, restored: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def longtail(of: Settings, *arguments: str) -> tuple[int, str]:
        monkeypatch.setenv("LONGTAIL_HOME", str(of.home))
        monkeypatch.setenv("LONGTAIL_DATABASE_URL", of.database_url)
        result = CliRunner().invoke(cli.app, list(arguments))
        return result.exit_code, result.output

    folder = tmp_path / "backups"
    folder.mkdir()
    assert longtail(settings, "verify") == (0, "nothing is wrong\n")
    code, said = longtail(settings, "backup", str(folder))
    (file,) = folder.glob("longtail-*.tar")
    assert (code, str(file) in said, "2 runs" in said) == (0, True, True)
    assert "is whole" in longtail(restored, "verify", str(file))[1]
    assert longtail(restored, "restore", str(file))[0] == 0
    assert longtail(restored, "verify", "--quick")[0] == 0
    assert longtail(restored, "restore", str(file))[0] == 2
    with tarfile.open(file) as tar:
        assert "manifest.json" in tar.getnames()
    store = open_store(restored)
    store.remove(hashlib.sha256(b"stored").hexdigest())
    code, said = longtail(restored, "verify")
    assert (code, "is missing" in said, "->" in said) == (1, True, True)
