"""Runs through real workers: every accepted run reaches one terminal state, by one visible attempt, and leaves no process."""

import os
import signal
import time
from pathlib import Path

from live_platform import Platform
from sqlalchemy import select

from backend.jobs.celery import make_celery, ring
from backend.jobs.processes import start_time
from backend.models import Attempt


def attempts(platform: Platform, run_id: str) -> list[str]:
    with platform.database.read() as session:
        return list(session.scalars(select(Attempt.state).where(Attempt.run_id == run_id).order_by(Attempt.number)))


def test_a_run_succeeds_and_shows_everything(platform: Platform, tmp_path: Path) -> None:
    platform.worker()
    run = platform.submit(steps=5)
    assert (run.state, run.attempt, run.steps) == ("queued", 0, 5)
    run = platform.until_state(run.id, "succeeded", "failed")
    assert (run.state, run.step, run.attempt, run.error) == ("succeeded", 5, 1, None)
    assert run.summary["rollout_share"] == 0.75
    assert run.summary["harvest"] == 0.5
    series = platform.client.metrics(run.id, ["step_seconds", "phase/rollout"], since_step=1).series
    assert series["phase/rollout"].steps == [2, 3, 4]
    assert series["step_seconds"].values == [2.0, 2.0, 2.0]
    assert [lengths.p50 for lengths in platform.client.lengths(run.id)] == [20] * 5
    artifact = platform.client.artifacts(run.id)[0]
    platform.client.download(artifact.id, tmp_path / "drafter.safetensors")
    assert (tmp_path / "drafter.safetensors").stat().st_size == artifact.bytes
    assert (platform.settings.run_folder(run.id) / "attempt_1.log").exists()


def test_doubled_messages_make_one_attempt(platform: Platform) -> None:
    app = make_celery(platform.settings)
    run = platform.submit(steps=10)
    for _ in range(10):
        ring(app, run.id)
    platform.worker()
    platform.worker()
    run = platform.until_state(run.id, "succeeded", "failed")
    platform.until(lambda: not list((platform.settings.broker_folder / "queue").iterdir()))
    assert run.state == "succeeded"
    assert attempts(platform, run.id) == ["succeeded"]


def test_a_killed_worker_loses_nothing(platform: Platform) -> None:
    worker = platform.worker(STANDIN_STEP_SECONDS="0.3")
    run = platform.submit(steps=12)
    platform.until(lambda: platform.client.run(run.id).step >= 2)
    with platform.database.read() as session:
        orphan = session.scalars(select(Attempt.pid).where(Attempt.run_id == run.id)).one()
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    platform.worker()
    run = platform.until_state(run.id, "succeeded", "failed")
    assert run.state == "succeeded"
    assert attempts(platform, run.id) == ["lost", "succeeded"]
    assert platform.client.metrics(run.id).series["reward_mean"].steps == list(range(12))
    messages = [line.message for line in platform.client.logs(run.id)]
    assert any("engine started at step" in message and "at step 0 " not in message for message in messages), "it did not resume"
    assert orphan is not None
    assert start_time(orphan) is None


def test_cancel_is_quick_and_thorough(platform: Platform) -> None:
    platform.worker(STANDIN_STEP_SECONDS="0.2")
    run = platform.submit("deaf", steps=1000)
    platform.until(lambda: platform.client.run(run.id).step >= 1)
    pids = [int(pid) for pid in (platform.settings.run_folder(run.id) / "pids").read_text().split()]
    assert all(start_time(pid) is not None for pid in pids)
    started = time.monotonic()
    assert platform.client.cancel(run.id).cancel_requested
    run = platform.until_state(run.id, "cancelled")
    assert time.monotonic() - started < 5
    assert [pid for pid in pids if start_time(pid) is not None] == []


def test_a_queued_run_is_cancelled_at_once(platform: Platform) -> None:
    run = platform.submit()
    assert platform.client.cancel(run.id).state == "cancelled"
    platform.worker()
    other = platform.submit()
    platform.until_state(other.id, "succeeded")
    assert attempts(platform, run.id) == []


def test_a_user_error_fails_with_the_engine_s_own_words(platform: Platform) -> None:
    platform.worker()
    run = platform.until_state(platform.submit("user-error").id, "failed")
    assert (run.error, run.error_code) == ("the dataset is empty", "data")


def test_a_crash_fails_and_shows_its_traceback(platform: Platform) -> None:
    platform.worker()
    run = platform.until_state(platform.submit("crash").id, "failed")
    assert run.error is not None
    assert "RuntimeError: out of luck" in run.error
    assert "Traceback" in platform.client.logs(run.id)[-1].message


def test_success_without_run_finished_is_a_failure(platform: Platform) -> None:
    platform.worker()
    run = platform.until_state(platform.submit("silent").id, "failed")
    assert run.error_code == "crash"


def test_a_killed_engine_is_resumed_up_to_the_limit(platform: Platform) -> None:
    platform.worker(STANDIN_STEP_SECONDS="600")
    run = platform.submit()
    for number in (1, 2, 3):
        platform.until(lambda n=number: platform.client.run(run.id).attempt == n and platform.client.run(run.id).state == "running")
        with platform.database.read() as session:
            pid = session.scalars(select(Attempt.pid).where(Attempt.run_id == run.id, Attempt.number == number)).one()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    run = platform.until_state(run.id, "failed")
    assert attempts(platform, run.id) == ["lost"] * 3
    assert run.error == "given up after 3 lost attempts; the last: the engine was killed by signal 9"


def test_a_worker_that_shuts_down_hands_its_run_over(platform: Platform) -> None:
    worker = platform.worker(STANDIN_STEP_SECONDS="0.3")
    run = platform.submit(steps=10)
    platform.until(lambda: platform.client.run(run.id).step >= 2)
    worker.terminate()
    assert worker.wait(20) == 0
    assert platform.client.run(run.id).state == "queued"
    platform.worker()
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"
    assert attempts(platform, run.id) == ["handed_over", "succeeded"]
