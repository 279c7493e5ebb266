"""A GPU goes to one run at a time, whichever worker of its host gives it, and a run has as many as it takes."""

import random
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from queue_cases import queue

from backend.database import Database
from backend.models import Attempt, Run, Worker
from backend.services.queue.scheduling import QueueLimits
from backend.services.queue.workers import workers
from backend.services.runs.attempts import Claim, Outcome, claim_next, settle
from longtail import Longtail

TWO = {"0": "host/0", "1": "host/1"}
SCHEDULES = 50


def cluster(workers: int = 1, **more: Any) -> dict[str, Any]:
    return {"cluster": {"workers": workers, **more}}


def worker(database: Database, gpus: Mapping[str, str]) -> str:
    with database.write() as session:
        row = Worker(host="h", pid=1, pid_started=1, labels=["cpu"], slots=9, gpus=dict(gpus))
        session.add(row)
        session.flush()
        return row.id


def take(database: Database, worker_id: str) -> Claim | None:
    with database.write() as session:
        return claim_next(session, worker_id, ["cpu"], QueueLimits(), 60, session.get_one(Worker, worker_id).gpus)


def end(database: Database, claimed: Claim, retries: int = 0) -> None:
    with database.write() as session:
        settle(session, claimed.run_id, claimed.attempt, Outcome("lost"), retries)


def named(database: Database, claimed: Claim | None) -> tuple[str, tuple[str, ...]] | None:
    with database.read() as session:
        return (session.get_one(Run, claimed.run_id).name, claimed.gpus) if claimed else None


def test_no_two_runs_have_the_same_gpu_in_fifty_random_schedules(database: Database) -> None:
    """Two workers offer the same two GPUs, one of them by other names."""
    workers = {worker(database, offered): offered for offered in (TWO, {"a": "host/1", "b": "host/0"})}
    most = 0
    for seed in range(SCHEDULES):
        chance = random.Random(seed)
        held: dict[str, tuple[Claim, list[str]]] = {}
        for number in range(3):
            queue(database, f"{seed}-{number}", chance.random(), config=cluster(chance.choice((1, 1, 2))))
        for _ in range(7):
            if held and chance.random() < 0.4:
                end(database, held.pop(chance.choice(list(held)))[0], retries=chance.randrange(2))
                continue
            worker_id = chance.choice(list(workers))
            claimed = take(database, worker_id)
            if claimed is not None:
                held[claimed.run_id] = claimed, [workers[worker_id][name] for name in claimed.gpus]
            given = [gpu for _, gpus in held.values() for gpu in gpus]
            assert len(given) == len(set(given)), f"schedule {seed}"
            assert all(gpus for _, gpus in held.values())
            most = max(most, len(held))
        with database.write() as session:
            session.query(Run).delete()
    assert most == 2, "two runs at once, each on its own"


def test_claimers_at_the_same_moment_get_different_gpus(database: Database) -> None:
    workers = [worker(database, TWO) for _ in range(4)]
    for number in range(4):
        queue(database, str(number), config=cluster())
    got: list[Claim | None] = []

    def work(worker_id: str) -> None:
        got.append(take(database, worker_id))

    threads = [threading.Thread(target=work, args=(each,)) for each in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed.gpus for claimed in got if claimed) == [("0",), ("1",)]
    with database.read() as session:
        assert sorted(attempt.gpus for attempt in session.query(Attempt)) == [["0"], ["1"]]


def test_gpus_of_runs_out_of_sight_and_of_another_worker_are_not_shown_as_free(database: Database) -> None:
    holder, beside, elsewhere = (worker(database, gpus) for gpus in (TWO, {"b": "host/1", "a": "host/0"}, {"0": "other/0"}))
    queue(database, "secret", config=cluster())
    assert take(database, holder) is not None
    with database.read() as session:
        shown, _ = workers(session, set(), 9, None, time.time())
    assert {each.id: each.gpus_taken for each in shown} == {holder: 1, beside: 1, elsewhere: 0}
    assert [each.leases for each in shown] == [[], [], []]


def test_a_run_that_waits_for_gpus_is_passed_by_those_that_need_none(database: Database) -> None:
    host = worker(database, TWO)
    for ago, (name, config) in enumerate({"late": cluster(), "cpu": cluster(device="cpu"), "both": cluster(2), "one": cluster()}.items()):
        queue(database, name, ago, config=config)
    first = take(database, host)
    assert first is not None
    assert named(database, first) == ("one", ("0",))
    assert [named(database, take(database, host)) for _ in range(2)] == [("cpu", ()), None], "late would starve both"
    end(database, first)
    assert named(database, take(database, host)) == ("both", ("0", "1"))


def test_without_enough_gpus_a_run_computes_on_the_cpu_unless_it_cannot(database: Database, client: Longtail) -> None:
    small, none = worker(database, {"0": "host/0"}), worker(database, {})
    for name, config in (
        ("sglang", {"rollout": {"engine": "sglang"}} | cluster(2)),
        ("cuda", cluster(2, device="cuda")),
        ("auto", cluster(2)),
    ):
        queue(database, name, config=config)
    assert take(database, none) is not None, "auto"
    assert [take(database, each) for each in (small, none)] == [None, None]
    assert {(item.run_name, item.gpus, item.reason) for item in client.queue().items} == {
        ("sglang", 2, "no_worker"),
        ("cuda", 2, "no_worker"),
    }
    run_id = queue(database, "warned", config=cluster(2))
    assert named(database, take(database, small)) == ("warned", ())
    assert "offers fewer GPUs (1) than the run takes (2)" in client.logs(run_id)[-1].message
    large = worker(database, TWO)
    assert named(database, take(database, large)) == ("sglang", ("0", "1"))
    assert {(item.run_name, item.reason) for item in client.queue().items} == {("cuda", "gpus")}
    shown = next(item for item in client.workers().items if item.id == large)
    assert (shown.gpus, shown.leases[0].gpus) == (["0", "1"], ["0", "1"])
    assert client.attempts(shown.leases[0].run_id)[0].gpus == ["0", "1"]


@pytest.mark.parametrize(
    ("config", "taken"),
    [
        (cluster(3), 3),
        (cluster(3, device="cpu"), 0),
        (cluster(3, ray_address="head:6379"), 0),
        ({"rollout": {"engine": "sglang", "sglang": {"tensor_parallel": 4}}} | cluster(2), 8),
    ],
)
def test_a_run_takes_a_gpu_for_each_rank(database: Database, config: dict[str, Any], taken: int) -> None:
    run_id = queue(database, "asking", config=config)
    with database.read() as session:
        run = session.get_one(Run, run_id)
        assert (run.gpus, run.gpu_only) == (taken, taken == 8)
