"""The reaper's judgement. Its work on real processes is tested with real workers."""

import os
import threading
import time
from collections.abc import Iterator

import pytest
from psycopg import OperationalError

from backend.database import Database
from backend.jobs.engine.processes import kill_all, machine, start_time
from backend.jobs.maintenance import lost_attempts
from backend.jobs.maintenance.lost_attempts import Reaper
from backend.models import Run, Worker
from backend.services.runs.attempts import Claim, LeaseLostError, claim, renew
from backend.settings import Settings

LEASE = Settings().lease_seconds


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def hold(database: Database, run_id: str, machine: str, pid_started: int | None) -> Claim:
    """The run is with a worker that says nothing more."""
    with database.write() as session:
        worker = Worker(host="h", machine=machine, pid=os.getpid(), pid_started=pid_started)
        session.add(worker)
        session.flush()
        taken = claim(session, run_id, worker.id, LEASE)
        assert taken is not None
        return taken


def me() -> int:
    started = start_time(os.getpid())
    assert started is not None
    return started


@pytest.mark.parametrize(
    ("here", "pid_started", "silent", "lost"),
    [
        (True, me(), 0.0, False),
        (True, me(), LEASE, False),  # a lease just run out: within the margin
        (True, me(), 2 * LEASE, True),  # alive, but silent for too long
        (True, me() - 1, 0.0, True),  # its number is another process's now: gone, whatever the lease says
        (False, 1, 0.0, False),  # cannot be looked up: its lease counts
        (False, 1, LEASE, False),
        (False, 1, 2 * LEASE, True),
    ],
    ids=["alive", "just-expired", "silent", "other-process", "elsewhere", "elsewhere-expired", "elsewhere-silent"],
)
def test_who_counts_as_lost(
    database: Database, settings: Settings, run_id: str, here: bool, pid_started: int, silent: float, lost: bool
) -> None:
    hold(database, run_id, machine() if here else "elsewhere", pid_started)
    clock = Clock()
    reaper = Reaper(database, settings, clock)
    first = reaper.reap()
    clock.now += silent
    assert (first or reaper.reap()) == ({run_id: "queued"} if lost else {})
    with database.read() as session:
        assert session.get_one(Run, run_id).state == ("queued" if lost else "starting")


def test_a_renewed_lease_starts_anew(database: Database, settings: Settings, run_id: str) -> None:
    held = hold(database, run_id, "elsewhere", 1)
    clock = Clock()
    reaper = Reaper(database, settings, clock)
    for _ in range(5):
        assert reaper.reap() == {}
        clock.now += LEASE
        with database.write() as session:
            renew(session, held, LEASE)


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_jump_of_the_clock_kills_no_live_run(
    database: Database, settings: Settings, run_id: str, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(database, run_id, machine(), me())
    reaper = Reaper(database, settings)
    assert reaper.reap() == {}
    moved = time.time() + jump
    monkeypatch.setattr(time, "time", lambda: moved)
    assert reaper.reap() == {}


def test_while_processes_are_killed_nobody_waits_and_nobody_has_the_run(
    database: Database, settings: Settings, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hold(database, run_id, machine(), me() - 1)
    killed = []

    def kill(run_id: str, attempt: int, session: int | None) -> None:
        kill_all(run_id, attempt, session)
        with Database(settings.database).write() as other:
            assert claim(other, run_id, "another", LEASE) is None
            with pytest.raises(LeaseLostError):
                renew(other, held, LEASE)
        killed.append(attempt)

    monkeypatch.setattr(lost_attempts, "kill_all", kill)
    assert Reaper(database, settings).reap() == {run_id: "queued"}
    assert killed == [1]


def test_a_worker_that_froze_while_it_sent_rows_keeps_no_run(
    database: Database, settings: Settings, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL does not end its transaction by itself."""
    if database.reader.dialect.name != "postgresql":
        pytest.skip("about what psycopg and PostgreSQL make of many rows")
    hold(database, run_id, "elsewhere", 1)
    frozen, thawed, ended = threading.Event(), threading.Event(), []

    def rows() -> Iterator[tuple[str]]:
        yield (run_id,)
        yield (run_id,)
        frozen.set()
        thawed.wait()
        yield (run_id,)

    def work() -> None:
        with database.writer.connect() as connection, connection.connection.driver_connection.cursor() as cursor:  # type: ignore[union-attr]
            try:
                cursor.executemany("UPDATE runs SET step = step + 1 WHERE id = %s", rows())
            except OperationalError as error:
                ended.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    frozen.wait()
    clock = Clock()
    reaper = Reaper(database, settings, clock)
    assert reaper.reap() == {}
    clock.now += 2 * LEASE
    monkeypatch.setattr("backend.database.IDLE_SECONDS", 0)
    assert reaper.reap() == {run_id: "queued"}
    thawed.set()
    worker.join()
    assert ended, "what it had begun is gone"


def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(database: Database, settings: Settings, run_id: str) -> None:
    hold(database, run_id, machine(), me() - 1)
    with database.write() as session:
        session.get_one(Run, run_id).cancel_requested = True
    assert Reaper(database, settings).reap() == {run_id: "cancelled"}


def test_a_lost_run_that_was_to_be_paused_is_paused(database: Database, settings: Settings, run_id: str) -> None:
    hold(database, run_id, machine(), me() - 1)
    with database.write() as session:
        session.get_one(Run, run_id).pause_requested = True
    assert Reaper(database, settings).reap() == {run_id: "paused"}
    with database.read() as session:
        assert not session.get_one(Run, run_id).pause_requested
