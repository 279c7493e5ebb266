"""The threads of a worker."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from backend.database import Database
from backend.jobs.engine.processes import machine
from backend.jobs.engine.supervisor import Supervisor
from backend.jobs.worker import JobWorker
from backend.models import LogLine, Run, Worker
from backend.services.runs import control, submission
from backend.services.runs.attempts import Claim, Outcome, claim, settle
from backend.settings import Settings
from engine.checkpoint import storage
from engine.config import RunConfig

SECONDS = 60.0
GIB = 2**30


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"sweep_seconds": 0.02})


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lose(database: Database) -> str:
    """A run whose worker is gone, and which waits for a worker of another kind."""
    with database.write() as session:
        run_id = submission.submit(session, RunConfig(name="lost"), submission.SubmissionOptions(needs="gpu"))[0].id
        worker = Worker(host="h", machine=machine(), pid=os.getpid(), pid_started=0)
        session.add(worker)
        session.flush()
        assert claim(session, run_id, worker.id, 60.0) is not None
    return run_id


def test_signs_of_life_and_reaping_go_on_while_checkpoints_are_read(database: Database, settings: Settings, run_id: str) -> None:
    checkpoints = settings.run_folder(run_id) / "checkpoints"
    for step in (1, 2):
        storage.save(checkpoints, step, {"state.json": step})
    large = checkpoints / "step_000002" / "state.json"
    os.truncate(large, 1000 * GIB)
    with database.write() as session:
        session.get_one(Run, run_id).state = "failed"
    worker = JobWorker(settings)

    def of(run_id: str) -> Run:
        with database.read() as session:
            return session.get_one(Run, run_id)

    shown = set[float]()

    def shows_life() -> bool:
        with database.read() as session:
            shown.update(session.scalars(select(Worker.seen_at)))
        return len(shown) > 3

    worker._begin()
    try:
        until(shows_life)
        lost = lose(database)
        until(lambda: of(lost).state == "queued")
        assert of(run_id).tidied_at is None, "the checkpoint is being read"
        os.truncate(large, 0)
        until(lambda: of(run_id).tidied_at is not None)
        assert [path.name for path in checkpoints.iterdir()] == ["step_000001"]
    finally:
        if large.exists():
            os.truncate(large, 0)
        worker._shut_down()
        worker._looking.join()


@pytest.mark.parametrize(
    ("summary", "steps", "seconds"), [({}, 1.0, 5.0), ({"step_seconds": 40.0}, 1.0, 45.0), ({"step_seconds": 40.0}, 0.0, 5.0)]
)
def test_a_run_has_the_time_of_a_step_to_be_handed_over(
    database: Database, settings: Settings, run_id: str, summary: dict[str, float | None], steps: float, seconds: float
) -> None:
    with database.write() as session:
        claimed = claim(session, run_id, "0" * 16, 60.0)
        assert claimed is not None
        session.get_one(Run, run_id).summary = summary
    supervisor = Supervisor(database, settings.model_copy(update={"handover_steps": steps}), claimed, time.monotonic(), Event())
    assert supervisor._handover_seconds() == seconds


def test_an_attempt_that_was_taken_away_adds_nothing_to_the_log(database: Database, settings: Settings, run_id: str) -> None:
    with database.write() as session:
        claimed = claim(session, run_id, "w" * 16, 60.0)
        assert claimed is not None
    supervisor = Supervisor(database, settings, claimed, time.monotonic(), Event())
    with database.write() as session:
        settle(session, run_id, claimed.attempt, Outcome("lost", error="its worker has been silent"), max_retries=2)
    assert supervisor._settle(Outcome("failed", 1, "the engine broke off", "crash")) is None
    with database.read() as session:
        assert session.scalars(select(LogLine.code)).all() == ["lost"]


def test_a_database_that_does_not_answer_fails_no_run(database: Database, settings: Settings, run_id: str) -> None:
    with database.write() as session:
        claimed = claim(session, run_id, "w" * 16, 60.0)
        assert claimed is not None
    worker = JobWorker(settings)
    worker._fail(claimed, OperationalError("SELECT 1", None, Exception("the connection is lost")))
    with database.read() as session:
        assert session.get_one(Run, run_id).state == "queued"
    assert worker._is_fit()


def take_without_checkpoints(database: Database, run_id: str) -> Claim:
    """As a worker that has not mounted the data folder would."""
    with database.write() as session:
        claimed = claim(session, run_id, "w" * 16, 60.0)
        assert claimed is not None
        session.get_one(Run, run_id).checkpoint_step = 7
    return replace(claimed, resumes=True)


def test_a_worker_that_lacks_checkpoints_leaves_the_runs_to_others_for_a_while(database: Database, settings: Settings, run_id: str) -> None:
    """The run fails only when its retries are used up, and says then what to do."""
    for state in ("queued", "queued", "failed"):
        worker = JobWorker(settings)
        assert worker._is_fit()
        worker._carry(take_without_checkpoints(database, run_id), time.monotonic())
        assert not worker._is_fit()
        with database.read() as session:
            run = session.get_one(Run, run_id)
            assert run.state == state
    assert run.error_code == "checkpoint"
    assert "Mount the data folder (LONGTAIL_HOME) there" in (run.error or "")


def test_a_run_that_is_cancelled_as_its_checkpoints_are_found_missing_does_not_fail(
    database: Database, settings: Settings, run_id: str
) -> None:
    claimed = take_without_checkpoints(database, run_id)
    with database.write() as session:
        control.cancel(session, run_id)
    JobWorker(settings)._carry(claimed, time.monotonic())
    with database.read() as session:
        assert session.get_one(Run, run_id).state == "cancelled"
