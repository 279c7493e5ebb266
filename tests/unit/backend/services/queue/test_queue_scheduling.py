"""Whose turn it is."""

import threading
import time
from collections import Counter

import pytest
from queue_cases import queue, take, take_all
from sqlalchemy import update

from backend.database import Database
from backend.models import Attempt, Run, Worker
from backend.services.queue.scheduling import QueueLimits, rooms, slots
from backend.services.runs import submission
from backend.services.runs.attempts import Outcome, settle
from engine.config import RunConfig


def end(database: Database, name: str) -> None:
    with database.write() as session:
        run = session.query(Run).where(Run.name == name).one()
        settle(session, run.id, run.attempt, Outcome("cancelled"), 0)


def test_higher_priority_goes_first_and_then_who_waits_longest(database: Database) -> None:
    for name, priority, ago in (("young", 0, 1), ("old", 0, 2), ("urgent", 5, 0), ("idle", -5, 3)):
        queue(database, name, ago, priority=priority)
    assert take_all(database) == ["urgent", "old", "young", "idle"]


def test_waiting_raises_priority_so_that_nothing_starves(database: Database) -> None:
    queue(database, "patient", queued_ago=11 * 3600, priority=-5)
    queue(database, "urgent", priority=5)
    assert take_all(database) == ["patient", "urgent"]


def test_owners_take_turns_however_many_runs_one_has_queued(database: Database) -> None:
    for number in range(4):
        queue(database, f"many{number}", queued_ago=100 - number, owner="many")
    queue(database, "few0", owner="few")
    queue(database, "nobody's")
    assert take_all(database)[:3] == ["many0", "few0", "nobody's"]


def test_an_owner_who_was_passed_over_for_long_comes_before_a_stream_of_urgent_runs(database: Database) -> None:
    queue(database, "modest", queued_ago=7 * 3600, owner="modest")
    for number in range(3):
        queue(database, f"urgent{number}", priority=6, owner="urgent")
    assert take_all(database)[0] == "modest"


def test_a_run_goes_to_workers_with_its_label_only(database: Database) -> None:
    queue(database, "big", needs="gpu:h200", queued_ago=9)
    queue(database, "any")
    assert take(database, "cpu") == "any"
    assert take(database, "cpu") is None
    assert take(database, "cpu", "gpu:h200") == "big"


def test_a_run_waits_for_its_time(database: Database) -> None:
    run_id = queue(database, "later", start_after=time.time() + 60)
    assert take(database) is None
    with database.write() as session:
        session.execute(update(Run).where(Run.id == run_id).values(start_after=time.time() - 1))
    assert take(database) == "later"


def test_limits_hold_and_let_others_pass(database: Database) -> None:
    for name, owner in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        queue(database, name, owner=owner)
    each_one = QueueLimits(active_per_owner=1)
    assert take_all(database, each_one) == ["a1", "b1"]
    end(database, "a1")
    assert take(database, limits=QueueLimits(active=1)) is None, "b1 is under way"
    assert take_all(database, QueueLimits(active=2, active_per_owner=1)) == ["a2"]


@pytest.mark.parametrize("limit", [0, 5])
def test_eight_claimers_get_each_run_once_and_never_pass_a_limit(database: Database, limit: int) -> None:
    for number in range(20):
        queue(database, f"run{number}")
    got: list[str] = []

    def work() -> None:
        got.extend(take_all(database, QueueLimits(active=limit)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(Counter(got).values()) == 1
    assert len(got) == (limit or 20)
    with database.read() as session:
        assert session.query(Attempt).count() == len(got)


def test_slots_are_those_of_living_workers(database: Database) -> None:
    with database.write() as session:
        for labels, total, seen in ((["cpu"], 2, 0), (["cpu", "gpu:h200"], 1, 0), (["gpu:h200"], 8, 100)):
            worker = Worker(host="h", pid=1, pid_started=1, labels=labels, slots=total, seen_at=time.time() - seen)
            session.add(worker)
        busy = session.query(Worker).where(Worker.slots == 2).one()
        run, _ = submission.submit(session, RunConfig(), submission.SubmissionOptions())
        session.add(Attempt(run_id=run.id, number=1, worker_id=busy.id))
    with database.read() as session:
        assert slots(rooms(session, time.time() - 50)) == {"": (3, 2), "cpu": (3, 2), "gpu:h200": (1, 1)}
