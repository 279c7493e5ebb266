"""One fault at a time, at the worst moment: what happens is known, and how quickly."""

import json
import os
import signal
import threading
import time
from contextlib import suppress

import history
import httpx
import pytest
from arena import LEASE, PATIENT, PATIENT_LEASE, Arena, in_background
from sizes import ALL, first, only_with_all
from sqlalchemy import select

from backend.jobs.engine.processes import start_time
from backend.models import LogLine, Run, Worker

BOTH = pytest.mark.parametrize("arena", first(1, ["postgresql", "sqlite"]), indirect=True)
WORKER_POINTS = {
    "after-claim": ["lost", "succeeded"],
    "before-the-engine-is-known": ["lost", "succeeded"],
    "mid-ingest": ["lost", "succeeded"],
    "before-settling": ["lost", "succeeded"],
    "mid-settling": ["lost", "succeeded"],
    "after-settling": ["succeeded"],
}


def finish(arena: Arena) -> None:
    """All runs come to their end, and their stories hold."""
    arena.settle()
    for run_id in arena.accepted:
        history.check(arena.database, arena.settings, run_id)
    assert arena.engines() == []


def until_step(arena: Arena, run_id: str, step: int) -> None:
    def there() -> bool:
        with arena.database.read() as session:
            return session.get_one(Run, run_id).step >= step

    arena.until(there)


def await_another_worker(arena: Arena, **environment: str) -> None:
    """Until it keeps house: how long a process takes to start is not what is timed here."""
    pid = arena.start_worker(**environment)

    def seen_at() -> float | None:
        with arena.database.read() as session:
            return session.scalar(select(Worker.seen_at).where(Worker.pid == pid))

    arena.until(lambda: seen_at() is not None)
    first = seen_at()
    arena.until(lambda: seen_at() != first)


def until_noticed(arena: Arena, run_id: str, crashed: float, lease: float = LEASE) -> None:
    """That the run's first attempt is over, within two leases of ``crashed`` on the monotonic clock; ten beside other tests."""
    arena.until(lambda: arena.attempts(run_id)[0] != "running")
    seconds = time.monotonic() - crashed
    print(f"noticed after {seconds:.1f} s")
    assert seconds < (2 if ALL else 10) * lease


@BOTH
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_worker_killed_at_a_named_point(arena: Arena, point: str) -> None:
    arena.start_api()
    run_id = arena.submit()
    worker = arena.start_worker(point, **PATIENT)
    arena.until(lambda: start_time(worker) is None)
    crashed = time.monotonic()
    arena.start_worker(**PATIENT)
    until_noticed(arena, run_id, crashed)
    finish(arena)
    assert arena.attempts(run_id) == WORKER_POINTS[point]


@pytest.mark.parametrize("point", ["mid-checkpoint", "mid-event", "between-artifact-and-row"])
def test_an_engine_killed_at_a_named_point(arena: Arena, point: str) -> None:
    arena.start_api()
    arena.start_worker(**PATIENT)
    run_id = arena.submit(point)
    finish(arena)
    assert arena.attempts(run_id) == ["lost", "succeeded"]


def test_the_api_may_die_at_any_time(arena: Arena) -> None:
    """It is away for longer than a lease, which is long enough for a machine that does something else, too."""
    arena.start_api()
    arena.start_worker(**PATIENT, FAULT_STEP_SECONDS="1")
    first = arena.submit(steps=16)
    until_step(arena, first, 2)
    arena.kill(arena.api)
    until_step(arena, first, 14)
    arena.start_api()
    arena.submit()
    finish(arena)
    assert arena.attempts(first) == ["succeeded"]


def test_the_broker_folder_may_vanish_and_messages_be_too_many(arena: Arena) -> None:
    arena.start_api()
    first = arena.submit(steps=10)
    arena.delete_broker()
    arena.start_worker(**PATIENT)
    arena.start_worker(**PATIENT)
    until_step(arena, first, 1)
    arena.delete_broker()
    second = arena.submit()
    for _ in range(3):
        arena.send_needless_messages()
    finish(arena)
    assert [arena.attempts(run_id) for run_id in (first, second)] == [["succeeded"]] * 2


@BOTH
def test_a_worker_frozen_past_its_lease_writes_nothing_more(arena: Arena) -> None:
    arena.start_api()
    frozen = arena.start_worker(**PATIENT, FAULT_STEP_SECONDS="1")
    run_id = arena.submit(steps=24)
    until_step(arena, run_id, 2)
    await_another_worker(arena, **PATIENT, FAULT_STEP_SECONDS="0.1")
    with arena.frozen(frozen):
        until_noticed(arena, run_id, time.monotonic(), PATIENT_LEASE)
        arena.until(lambda: len(arena.attempts(run_id)) == 2)
        until_step(arena, run_id, 18)
    finish(arena)
    assert arena.attempts(run_id) == ["lost", "succeeded"]


@BOTH
def test_a_stall_of_the_database_shorter_than_the_lease_kills_no_run(arena: Arena) -> None:
    """Two fifths of a lease, longer than between two renewals: as 24 s of the 60 s of the default. A quarter is left for a slow machine."""
    lease = 20.0
    arena.start_api()
    arena.start_worker(FAULT_STEP_SECONDS="0.1", LONGTAIL_LEASE_SECONDS=str(lease))
    run_id = arena.submit(steps=100)
    until_step(arena, run_id, 2)
    arena.lock_database(0.4 * lease)
    finish(arena)
    assert arena.attempts(run_id) == ["succeeded"]


@only_with_all
@pytest.mark.slow
def test_a_database_locked_for_ten_seconds(arena: Arena) -> None:
    """Five leases: the worker ends its own engine, and the run goes on when the database does."""
    arena.start_api()
    arena.start_worker()
    run_id = arena.submit(steps=400)
    until_step(arena, run_id, 2)
    lock = in_background(lambda: arena.lock_database(10))
    arena.until(lambda: not arena.engines())
    lock.join()
    arena.client.cancel(run_id)
    other = arena.submit()
    finish(arena)
    assert arena.state(other) == "succeeded"


@pytest.mark.parametrize("seconds", [-1e5, 1e5])
def test_a_jump_of_the_clock_is_not_noticed(arena: Arena, seconds: float) -> None:
    arena.start_api()
    arena.start_worker(**PATIENT, FAULT_STEP_SECONDS="0.1")
    run_id = arena.submit(steps=30)
    until_step(arena, run_id, 2)
    arena.set_clock(seconds)
    arena.start_worker(**PATIENT)
    time.sleep(LEASE)
    second = arena.submit()
    arena.until(lambda: arena.state(second) == "succeeded")
    finish(arena)
    assert arena.attempts(run_id) == ["succeeded"], history.story(arena.database, arena.settings, run_id)


def test_everything_may_be_killed_and_started_again(arena: Arena) -> None:
    arena.start_api()
    arena.start_worker(**PATIENT, FAULT_HELD_AT="5")
    runs = [arena.submit(steps=10) for _ in range(3)]
    until_step(arena, runs[0], 2)
    arena.kill_all()
    arena.start_api()
    arena.start_worker(**PATIENT)
    finish(arena)
    assert arena.attempts(runs[0]) == ["lost", "succeeded"]


def test_a_full_disk_fails_the_run_with_its_reason_and_a_retry_goes_on(arena: Arena) -> None:
    arena.start_api()
    worker = arena.start_worker(**PATIENT, FAULT_FILE_BYTES="1500")
    run_id = arena.submit(steps=12)
    arena.until(lambda: arena.state(run_id) == "failed")
    with arena.database.read() as session:
        run = session.get_one(Run, run_id)
        assert "File too large" in (run.error or "")
    arena.kill_worker(worker)
    arena.start_worker(**PATIENT)
    again = arena.client.retry(run_id)
    arena.accepted.append(again.id)
    arena.until(lambda: arena.state(again.id) == "succeeded")
    assert again.resumed_step is not None
    with arena.database.read() as session:
        starts = session.scalars(select(LogLine.message).where(LogLine.run_id == again.id, LogLine.code == "started")).all()
    assert f"at step {again.resumed_step + 1} " in starts[-1]
    finish(arena)


def test_a_worker_without_space_takes_no_run(arena: Arena) -> None:
    arena.start_api()
    await_another_worker(arena, LONGTAIL_LEAST_FREE_BYTES=str(2**62))
    run_id = arena.submit()
    time.sleep(1.0)
    assert arena.state(run_id) == "queued"
    arena.start_worker()
    finish(arena)


def test_the_whole_session_of_an_engine_goes_with_its_guardian(arena: Arena) -> None:
    arena.start_api()
    arena.start_worker(**PATIENT, FAULT_HELD_AT="5")
    run_id = arena.submit(steps=10)
    until_step(arena, run_id, 2)
    with arena.database.read() as session:
        guardian = next(pid for pid in arena.engines() if os.getsid(pid) == pid)
        assert session.get_one(Run, run_id).state == "running"
    os.kill(guardian, signal.SIGKILL)
    finish(arena)
    assert arena.attempts(run_id) == ["lost", "succeeded"]


@pytest.mark.parametrize("arena", ["postgresql"], indirect=True)
def test_a_worker_that_cannot_write_leaves_the_run_to_others(arena: Arena) -> None:
    """It would use up the run's retries in no time."""
    arena.start_api()
    sick = arena.start_worker(**PATIENT, FAULT_WORKER_BYTES="1")
    run_id = arena.submit()
    arena.until(lambda: arena.attempts(run_id) == ["lost"])
    time.sleep(LEASE / 2)
    assert arena.attempts(run_id) == ["lost"]
    arena.kill_worker(sick)
    arena.start_worker(**PATIENT)
    finish(arena)
    assert arena.attempts(run_id) == ["lost", "succeeded"]


@only_with_all
@BOTH
def test_a_long_run_may_be_lost_as_often_as_it_comes_further(arena: Arena) -> None:
    """More often than ``max_retries``, each time after a new checkpoint."""
    arena.start_api()
    arena.start_worker(**PATIENT, FAULT_STEP_SECONDS="0.1")
    run_id = arena.submit(steps=120)
    losses = arena.settings.max_retries + 2
    saved = -1
    for number in range(losses):
        arena.until(lambda saved=saved: checkpoint(arena, run_id) > saved + 1)  # type: ignore[misc]
        saved = checkpoint(arena, run_id)
        for engine in arena.engines():
            with suppress(ProcessLookupError):  # the guardian's end may have taken it along
                os.kill(engine, signal.SIGKILL)
        arena.until(lambda number=number: len(arena.attempts(run_id)) == number + 2)  # type: ignore[misc]
    finish(arena)
    assert arena.attempts(run_id) == ["lost"] * losses + ["succeeded"]


def checkpoint(arena: Arena, run_id: str) -> int:
    with arena.database.read() as session:
        return session.get_one(Run, run_id).checkpoint_step


@pytest.mark.parametrize("arena", first(1, ["redis", "postgresql"]), indirect=True)
def test_a_host_that_vanishes_loses_its_runs_to_another(arena: Arena) -> None:
    """Nobody there can be asked or killed: the lease tells, and the guardian ends the engine."""
    arena.start_api()
    gone = arena.start_worker(**PATIENT, FAULT_MACHINE="first", FAULT_HELD_AT="5")
    run_id = arena.submit(steps=10)
    until_step(arena, run_id, 2)
    await_another_worker(arena, **PATIENT, FAULT_MACHINE="second")
    crashed = time.monotonic()
    arena.kill_worker(gone)
    arena.until(lambda: not arena.engines())
    until_noticed(arena, run_id, crashed, PATIENT_LEASE)
    finish(arena)
    assert arena.attempts(run_id) == ["lost", "succeeded"]


@only_with_all
def test_a_hundred_gigabytes_of_checkpoints_are_checked_beside_everything_else(arena: Arena) -> None:
    """Of a cancelled run the newest one is read whole before the other goes: for minutes, in which the platform is as quick as ever."""
    arena.start_api()
    kept = arena.submit()
    arena.client.cancel(kept)
    checkpoints = arena.settings.run_folder(kept) / "checkpoints"
    for step in (1, 2):
        place = checkpoints / f"step_{step:06d}"
        place.mkdir(parents=True)
        with (place / "weights").open("wb") as weights:
            weights.truncate(50 * 2**30)
        (place / "manifest.json").write_text(json.dumps({"schema": 1, "step": step, "files": {"weights": "0" * 64}}))
    doomed = arena.start_worker(FAULT_STEP_SECONDS="0.2")
    run_id = arena.submit(steps=30)
    until_step(arena, run_id, 2)
    await_another_worker(arena)
    over, answers = threading.Event(), list[int]()

    def ask() -> None:
        while not over.wait(0.05):
            answers.append(httpx.get(f"{arena.client.base_url}/readyz", timeout=60).status_code)

    asking = in_background(ask)
    arena.kill_worker(doomed)
    until_noticed(arena, run_id, time.monotonic())
    assert len(list(checkpoints.iterdir())) == 2, "it is not read yet"
    finish(arena)
    over.set()
    asking.join()
    assert set(answers) == {200}
    assert len(answers) > 5


def test_what_a_worker_says_of_a_run_names_it(arena: Arena) -> None:
    arena.start_api()
    arena.start_worker(**PATIENT)
    runs = [arena.submit(), arena.submit("mid-event")]
    finish(arena)

    def said() -> dict[str, list[int]]:
        whole = (arena.settings.home / "worker.log").read_text().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        return {run_id: [line["attempt"] for line in lines if line.get("run_id") == run_id] for run_id in runs}

    arena.until(lambda: len(said()[runs[1]]) >= 4)  # it says that an attempt has ended a moment after the database does
    assert said() == {runs[0]: [1, 1], runs[1]: [1, 1, 2, 2]}, "when it begins, and when it ends"
