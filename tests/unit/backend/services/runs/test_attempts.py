import time

import pytest
from sqlalchemy import select

from backend.database import Database
from backend.models import Attempt, LogLine, Run, new_id
from backend.services.queue.scheduling import QueueLimits, next_fitting
from backend.services.runs.attempts import Claim, LeaseLostError, Outcome, claim, renew, settle

WORKER = new_id()


def take(database: Database, run_id: str) -> Claim | None:
    with database.write() as session:
        return claim(session, run_id, WORKER, 60)


def end(database: Database, run_id: str, attempt: int, outcome: Outcome, max_retries: int = 1) -> str | None:
    with database.write() as session:
        return settle(session, run_id, attempt, outcome, max_retries)


def test_a_run_is_claimed_once(database: Database, run_id: str) -> None:
    first = take(database, run_id)
    assert first is not None
    assert first.attempt == 1
    assert take(database, run_id) is None
    with database.read() as session:
        run = session.get_one(Run, run_id)
        assert (run.state, run.attempt) == ("starting", 1)
        assert run.lease_expires_at is not None


def test_a_lost_attempt_is_queued_again_up_to_the_limit(database: Database, run_id: str) -> None:
    take(database, run_id)
    assert end(database, run_id, 1, Outcome("lost", error="its worker is gone")) == "queued"
    with database.read() as session:
        assert "its worker is gone" in session.scalars(select(LogLine.message)).one()
    second = take(database, run_id)
    assert second is not None
    assert second.attempt == 2
    assert end(database, run_id, 2, Outcome("lost", error="its worker is gone")) == "failed"
    with database.read() as session:
        assert session.get_one(Run, run_id).error == "given up after 2 lost attempts; the last: its worker is gone"
        assert session.scalars(select(Attempt.state).order_by(Attempt.number)).all() == ["lost", "lost"]


@pytest.mark.parametrize(("said", "kept"), [(None, "lost"), ("worker_lost", "worker_lost")])
def test_a_run_that_is_given_up_has_the_code_of_its_last_attempt(database: Database, run_id: str, said: str | None, kept: str) -> None:
    take(database, run_id)
    assert end(database, run_id, 1, Outcome("lost", error="gone", error_code=said), max_retries=0) == "failed"
    with database.read() as session:
        assert session.get_one(Run, run_id).error_code == kept


@pytest.mark.parametrize(("checkpoints", "states"), [([2, 5, 6, 9], ["queued"] * 4), ([2, 2, 5, 5, 5], ["queued"] * 4 + ["failed"])])
def test_losses_count_anew_once_the_run_has_come_further(
    database: Database, run_id: str, checkpoints: list[int], states: list[str]
) -> None:
    """With at most two losses from one and the same checkpoint."""
    found = []
    for attempt, step in enumerate(checkpoints, 1):
        take(database, run_id)
        with database.write() as session:
            session.get_one(Run, run_id).checkpoint_step = step
        found.append(end(database, run_id, attempt, Outcome("lost", error="gone"), max_retries=2))
    assert found == states


def test_a_run_that_is_lost_again_waits_before_the_next_attempt_and_longer_each_time(database: Database, run_id: str) -> None:
    """No worker takes it meanwhile, and the run's log says so."""
    for attempt, seconds in enumerate((0, 30, 60), 1):
        take(database, run_id)
        before = time.time()
        with database.write() as session:
            settle(session, run_id, attempt, Outcome("lost", error="gone"), max_retries=3, retry_seconds=30.0)
        with database.read() as session:
            start_after = session.get_one(Run, run_id).start_after
            if not seconds:
                assert start_after is None
                continue
            assert start_after is not None
            assert before + seconds <= start_after <= time.time() + seconds
            assert session.scalars(select(LogLine.message).order_by(LogLine.id.desc())).first() == (
                f"attempt {attempt} ended (gone); resuming from the last checkpoint in {seconds} s"
            )
            assert next_fitting(session, ["cpu"], {}, QueueLimits(), start_after - 1) is None
            assert next_fitting(session, ["cpu"], {}, QueueLimits(), start_after + 1) is not None


def test_handing_over_does_not_count_as_a_loss(database: Database, run_id: str) -> None:
    for attempt in range(1, 5):
        take(database, run_id)
        assert end(database, run_id, attempt, Outcome("handed_over", error="its worker shut down"), max_retries=0) == "queued"


@pytest.mark.parametrize("state", ["lost", "handed_over"])
def test_a_run_that_was_to_be_cancelled_is_not_queued_again(database: Database, run_id: str, state: str) -> None:
    take(database, run_id)
    with database.write() as session:
        session.get_one(Run, run_id).cancel_requested = True
    assert end(database, run_id, 1, Outcome(state)) == "cancelled"  # type: ignore[arg-type]


def test_who_was_fenced_off_changes_nothing(database: Database, run_id: str) -> None:
    stale = take(database, run_id)
    assert stale is not None
    end(database, run_id, 1, Outcome("lost", error="silent"))
    take(database, run_id)
    assert end(database, run_id, 1, Outcome("failed", error="late")) is None
    with database.read() as session:
        assert session.get_one(Run, run_id).state == "starting"
        assert session.get_one(Attempt, (run_id, 1)).state == "lost"
    with database.write() as session, pytest.raises(LeaseLostError):
        renew(session, stale, 60)
