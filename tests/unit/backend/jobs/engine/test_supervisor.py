"""How one attempt is carried."""

import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from engine_events import begin, started, step, write
from sqlalchemy import select

from backend.database import Database
from backend.jobs.engine.supervisor import Supervisor
from backend.models import LogLine, Metric, Run
from backend.services.runs.attempts import Claim, Outcome, claim, settle
from backend.settings import Settings
from engine.config import merged
from engine.errors import CheckpointError
from engine.events import CheckpointSaved, StartingUp

START = (
    "from pathlib import Path; from engine.events import EventWriter, Log, StartingUp; out = Path(sys.argv[sys.argv.index('--out') + 1]); "
    "events = EventWriter(out / 'events.jsonl'); events.write(StartingUp(phase='starting_workers'))"
)
"""What an engine does that comes to start its workers."""
TELL = f"{START}; events.write(Log(level='error', message='no data', code='data'))"
"""And then says why it ends."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With an engine that only says that it was started."""
    return settings.model_copy(update={"engine_command": (sys.executable, "-c", "raise SystemExit('it was started')")})


def take(database: Database, run_id: str) -> Claim:
    with database.write() as session:
        claimed = claim(session, run_id, "w" * 16, 60.0)
    assert claimed is not None
    return claimed


def supervisor(database: Database, settings: Settings, claimed: Claim) -> Supervisor:
    return Supervisor(database, settings, claimed, time.monotonic(), Event())


def of(database: Database, run_id: str) -> Run:
    with database.read() as session:
        return session.get_one(Run, run_id)


def lose_after_a_step(database: Database, folder: Path, run_id: str) -> None:
    path = folder / "events.jsonl"
    path.parent.mkdir(parents=True)
    write(path, started(), *step(0), CheckpointSaved(step=0, path="checkpoints/step_000000", seconds=0.1))
    begin(database, run_id, path).drain()
    with database.write() as session:
        settle(session, run_id, 1, Outcome("lost", error="gone"), max_retries=2)


@pytest.mark.parametrize("mounted", [False, True])
def test_a_run_whose_checkpoints_are_not_there_is_not_begun_anew(
    database: Database, settings: Settings, run_id: str, tmp_path: Path, mounted: bool
) -> None:
    lose_after_a_step(database, settings.run_folder(run_id), run_id)
    if not mounted:
        settings.runs.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=str(settings.run_folder(run_id) / "checkpoints")):
        supervisor(database, settings, take(database, run_id)).run()
    run = of(database, run_id)
    assert (run.step, run.events_seq > 0) == (1, True)
    with database.read() as session:
        assert session.scalars(select(Metric.step).where(Metric.key == "reward_mean")).all() == [0]


@pytest.mark.parametrize("saved", ["", "checkpoints", "pretraining"])
def test_rounds_of_pretraining_that_are_not_there_are_not_begun_anew(
    database: Database, settings: Settings, run_id: str, saved: str
) -> None:
    """They may have taken hours. What began its steps since then has them still, or checkpoints."""
    folder = settings.run_folder(run_id)
    take(database, run_id)
    with database.write() as session:
        session.get_one(Run, run_id).pretraining = {"round": 3}
        settle(session, run_id, 1, Outcome("lost", error="gone"), max_retries=2)
    attempt = supervisor(database, settings, take(database, run_id))
    if saved:
        (folder / saved / "step_000003").mkdir(parents=True)
        assert attempt.run() == "failed", "its engine was started"
        return
    with pytest.raises(CheckpointError, match=str(folder / "pretraining")):
        attempt.run()


def test_a_run_whose_checkpoints_are_there_goes_on(database: Database, settings: Settings, run_id: str) -> None:
    lose_after_a_step(database, settings.run_folder(run_id), run_id)
    (settings.run_folder(run_id) / "checkpoints" / "step_000000").mkdir(parents=True)
    assert supervisor(database, settings, take(database, run_id)).run() == "failed"
    assert "it was started" in (of(database, run_id).error or "")


@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("end", ["raise SystemExit(128 + 15)", "raise SystemExit(128 + 2)", "import os; os.kill(os.getpid(), 15)"])
def test_an_engine_that_somebody_told_to_end_is_resumed(
    database: Database, settings: Settings, run_id: str, end: str, stopping: bool
) -> None:
    """It counts as lost, unless its worker was told, too."""
    settings = settings.model_copy(update={"engine_command": (sys.executable, "-c", end)})
    attempt = supervisor(database, settings, take(database, run_id))
    if stopping:
        attempt._stopping.set()
    assert attempt.run() == "queued"
    assert of(database, run_id).losses == (0 if stopping else 1)


@pytest.mark.parametrize(
    ("address", "end", "state"),
    [
        ("head:6379", f"{START}; os._exit(1)", "queued"),
        ("head:6379", f"{START}; os._exit(3)", "failed"),
        ("head:6379", f"{TELL}; os._exit(1)", "failed"),
        (None, f"{START}; os._exit(1)", "failed"),
    ],
)
def test_an_engine_that_ray_ends_as_the_head_of_its_cluster_is_gone_is_resumed(
    database: Database, settings: Settings, run_id: str, address: str | None, end: str, state: str
) -> None:
    """It cannot tell anything then. What it printed last is in the run's log."""
    print_and_end = f"import os, sys; print('GCS may have been killed', flush=True); {end}"
    settings = settings.model_copy(update={"engine_command": (sys.executable, "-c", print_and_end)})
    with database.write() as session:
        run = session.get_one(Run, run_id)
        run.config = merged(run.config, {"cluster": {"ray_address": address}})
    assert supervisor(database, settings, take(database, run_id)).run() == state
    with database.read() as session:
        said = session.scalars(select(LogLine).where(LogLine.code == "crash")).one()
    assert said.message == "GCS may have been killed"


@pytest.mark.parametrize("command", [(sys.executable, "-m", "no_engine"), ("no_python",)])
def test_an_engine_that_cannot_begin_is_not_taken_for_one_that_ray_has_ended(
    database: Database, settings: Settings, run_id: str, command: tuple[str, ...]
) -> None:
    """It ends with the same exit code, and would do so again. What attempts before it said does not count."""
    settings = settings.model_copy(update={"engine_command": command})
    with database.write() as session:
        run = session.get_one(Run, run_id)
        run.config = merged(run.config, {"cluster": {"ray_address": "head:6379"}})
    settings.run_folder(run_id).mkdir(parents=True)
    write(settings.run_folder(run_id) / "events.jsonl", StartingUp(phase="starting_workers"), started())
    assert supervisor(database, settings, take(database, run_id)).run() == "failed"
    assert of(database, run_id).error_code == "crash"
    assert command[-1] in (of(database, run_id).error or "")


def test_the_lease_is_kept_while_a_long_file_of_events_is_read(
    database: Database, settings: Settings, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    events = settings.run_folder(run_id) / "events.jsonl"
    events.parent.mkdir(parents=True)
    write(events, started(), *step(0))
    lines = len(events.read_bytes().splitlines())
    attempt = Supervisor(database, settings, take(database, run_id), now, Event())
    pull = attempt._ingestor._pull

    def pull_slowly() -> bool:
        nonlocal now
        now += settings.lease_seconds / 2
        return pull()

    monkeypatch.setattr("backend.services.telemetry.event_ingest.BATCH_BYTES", 1)
    monkeypatch.setattr("backend.jobs.engine.supervisor.time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(attempt._ingestor, "_pull", pull_slowly)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as guard:
        while attempt._ingestor._seq < lines - 1:
            attempt._tend(guard)
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdin.close()
        told = [float(line) for line in guard.stdout]
    assert told == [settings.lease_seconds * (1 + number / 2) for number in range(1, lines + 1)]


LINES = 1 + 2 * len(step(0))


@pytest.fixture
def slow_reader(database: Database, settings: Settings, run_id: str, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """Ingests ``LINES`` lines one by one, and looks after each what is wanted of it. Its engine runs until it is ended."""
    settings = settings.model_copy(update={"poll_seconds": 1e-9, "engine_command": (sys.executable, "-c", "import time; time.sleep(600)")})
    events = settings.run_folder(run_id) / "events.jsonl"
    events.parent.mkdir(parents=True)
    write(events, started(), *step(0), *step(1))
    monkeypatch.setattr("backend.services.telemetry.event_ingest.BATCH_BYTES", 1)
    return supervisor(database, settings, take(database, run_id))


def test_a_cancel_is_heard_while_a_long_file_of_events_is_read(
    database: Database, slow_reader: Supervisor, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of it is read once the engine has ended."""
    with database.write() as session:
        session.get_one(Run, run_id).cancel_requested = True
    read: list[int] = []
    drain = slow_reader._ingestor.drain

    def drain_and_tell(*arguments: Any) -> bool:
        has_read_all = drain(*arguments)
        read.append(slow_reader._ingestor._seq)
        return has_read_all

    monkeypatch.setattr(slow_reader._ingestor, "drain", drain_and_tell)
    assert slow_reader.run() == "cancelled"
    assert (read[0], read[-1]) == (0, LINES - 1)


@pytest.mark.parametrize(
    ("stopping", "interruption", "state", "read"),
    [
        (True, "handed_over", "queued", 1),
        (True, None, "queued", 1),  # it has stopped by itself, as it was asked to
        (True, "cancelled", "cancelled", None),
        (False, None, "queued", None),
    ],
)
def test_a_worker_that_shuts_down_leaves_a_long_file_of_events_to_the_next_attempt(
    database: Database,
    slow_reader: Supervisor,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
    stopping: bool,
    interruption: str | None,
    state: str,
    read: int | None,
) -> None:
    monkeypatch.setattr(slow_reader, "_watch", lambda _: interruption)
    if stopping:
        slow_reader._stopping.set()
    assert slow_reader.run() == state
    assert of(database, run_id).events_seq + 1 == (read or LINES)


def test_a_worker_that_is_told_to_shut_down_while_it_reads_the_rest_hands_over_at_once(
    database: Database, slow_reader: Supervisor, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_reader, "_watch", lambda _: None)
    kept = iter((False, False, True))

    def keep_lease() -> bool:
        if next(kept, False):
            slow_reader._stopping.set()
        return False

    monkeypatch.setattr(slow_reader, "_keep_lease", keep_lease)
    assert slow_reader.run() == "queued"
    assert 1 < of(database, run_id).events_seq + 1 < LINES


def test_what_was_read_late_but_wholly_is_no_reason_to_hand_over(database: Database, settings: Settings, run_id: str) -> None:
    settings = settings.model_copy(update={"poll_seconds": 1e-9})
    events = settings.run_folder(run_id) / "events.jsonl"
    events.parent.mkdir(parents=True)
    write(events, started(), *step(0))
    attempt = supervisor(database, settings, take(database, run_id))
    attempt._stopping.set()
    assert attempt._read_the_rest(None)


def test_a_lease_that_is_kept_just_as_the_engine_ends_costs_nothing(database: Database, settings: Settings, run_id: str) -> None:
    attempt = supervisor(database, settings, take(database, run_id))
    with attempt._engine({}) as engine:
        engine.wait()
        attempt._lease_end = 0.0
        attempt._hold(engine)
    assert attempt._lease_end > 0
