"""The reaper's judgement. Its work on real processes is tested with real workers."""

import os
import time

import pytest

from backend.database import Database
from backend.jobs.processes import start_time
from backend.jobs.reaper import reap
from backend.models import Run, Worker
from backend.services.attempts import claim
from backend.settings import Settings

HERE = os.uname().nodename


def hold(database: Database, run_id: str, host: str, pid: int, pid_started: int, expired_seconds: float) -> None:
    """The run is with a worker whose lease ran out ``expired_seconds`` ago."""
    with database.write() as session:
        worker = Worker(host=host, pid=pid, pid_started=pid_started)
        session.add(worker)
        session.flush()
        claim(session, run_id, worker.id, -expired_seconds)


def me() -> int:
    started = start_time(os.getpid())
    assert started is not None
    return started


@pytest.mark.parametrize(
    ("host", "pid_started", "expired_seconds", "lost"),
    [
        (HERE, me(), -60.0, False),  # alive, with a lease
        (HERE, me(), 10.0, False),  # a lease just run out: within the margin
        (HERE, me(), 31.0, True),  # alive, but silent for too long
        (HERE, me() - 1, -60.0, True),  # its number is another process's now: gone, whatever the lease says
        ("elsewhere", 1, -60.0, False),  # cannot be looked up: its lease counts
        ("elsewhere", 1, 31.0, True),
    ],
    ids=["alive", "just-expired", "silent", "other-process", "elsewhere", "elsewhere-silent"],  # the same in every test worker
)
def test_who_counts_as_lost(
    database: Database, settings: Settings, run_id: str, host: str, pid_started: int, expired_seconds: float, lost: bool
) -> None:
    hold(database, run_id, host, os.getpid(), pid_started, expired_seconds)
    assert reap(database, settings) == ({run_id: "queued"} if lost else {})
    with database.read() as session:
        assert session.get_one(Run, run_id).state == ("queued" if lost else "starting")


def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(database: Database, settings: Settings, run_id: str) -> None:
    hold(database, run_id, "elsewhere", 1, 1, expired_seconds=time.time())
    with database.write() as session:
        session.get_one(Run, run_id).cancel_requested = True
    assert reap(database, settings) == {run_id: "cancelled"}
