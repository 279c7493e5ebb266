"""Runs through real workers: every accepted run reaches one terminal state, by one visible attempt, and leaves no process."""

import os
import shutil
import signal
import time
from pathlib import Path

from live_platform import Platform, ended, pid_of
from sizes import ALL, only_with_all

from backend.jobs.celery import make_celery, notify_workers
from backend.jobs.engine.processes import start_time

QUICK = 5 if ALL else 60
"""Seconds: beside other tests a quick thing takes longer, and is still far from the minutes of the run or the step that it ends."""


def endings(platform: Platform, run_id: str) -> list[str]:
    return [attempt.state for attempt in platform.attempts(run_id)]


def alive(pid: int | None) -> bool:
    assert pid is not None, "the attempt has no process on record"
    return start_time(pid) is not None


def stands_still(pid: int) -> bool:
    """All of its threads, also one that was in the midst of a system call."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return {thread.read_text().rpartition(")")[2].split()[0] for thread in threads} == {"T"}


def test_a_run_succeeds_and_shows_everything(platform: Platform, tmp_path: Path) -> None:
    platform.worker()
    run = platform.submit(steps=5)
    assert (run.state, run.attempt, run.steps) == ("queued", 0, 5)
    run = platform.until_state(run.id, "succeeded", "failed")
    assert (run.state, run.step, run.attempt, run.error) == ("succeeded", 5, 1, None)
    assert (run.summary["rollout_share"], run.summary["harvest"]) == (0.75, 0.5)
    series = platform.client.metrics(run.id, ["step_seconds", "phase/rollout"], since_step=1).series
    assert series["phase/rollout"].steps == [2, 3, 4]
    assert series["step_seconds"].values == [2.0, 2.0, 2.0]
    assert [lengths.p50 for lengths in platform.client.lengths(run.id)] == [20] * 5
    artifact = platform.client.artifacts(run.id)[0]
    platform.client.download(artifact.id, tmp_path / artifact.name)
    assert (tmp_path / artifact.name).stat().st_size == artifact.bytes
    assert (platform.settings.run_folder(run.id) / "attempt_1.log").exists()


def test_failures_say_why(platform: Platform) -> None:
    platform.worker()
    said, crashed, silent = (platform.submit(name).id for name in ("user-error", "crash", "silent"))
    run = platform.until_state(said, "failed")
    assert (run.error, run.error_code) == ("the dataset is empty", "data")
    run = platform.until_state(crashed, "failed")
    assert run.error is not None
    assert "RuntimeError: out of luck" in run.error
    assert "Traceback" in platform.client.logs(crashed)[-1].message
    run = platform.until_state(silent, "failed")
    assert run.error_code == "crash", "exit code 0 without run_finished is no success"
    assert [endings(platform, run_id) for run_id in (said, crashed, silent)] == [["failed"]] * 3, "nothing is tried again"


def test_runs_at_the_same_time_have_a_gpu_each(platform: Platform) -> None:
    """Of the two that both workers of this host offer, each for two runs at a time."""
    for _ in range(2):
        platform.worker(0.1, LONGTAIL_GPUS='["0", "1"]', LONGTAIL_CONCURRENCY="2")
    runs = [platform.submit(f"own-gpu {number}", steps=4, cluster={"workers": 1, "device": "cuda"}).id for number in range(6)]
    assert [platform.until_state(run_id, "succeeded", "failed").error for run_id in runs] == [None] * 6
    attempts = [attempt for run_id in runs for attempt in platform.attempts(run_id)]
    assert {attempt.gpus[0] for attempt in attempts} == {"0", "1"}
    seen = [(attempt.environment or {})["variables"]["CUDA_VISIBLE_DEVICES"] for attempt in attempts]
    assert seen == [",".join(attempt.gpus) for attempt in attempts]


def test_a_worker_is_seen_to_work_as_long_as_it_looks_for_runs(platform: Platform, tmp_path: Path) -> None:
    """By whoever may look at a file only, such as a probe of its container."""
    alive = tmp_path / "alive"
    worker = platform.worker(LONGTAIL_ALIVE_FILE=str(alive))
    platform.until(alive.exists)
    alive.unlink()
    platform.until(alive.exists)
    os.kill(pid_of(worker), signal.SIGSTOP)
    platform.until(lambda: stands_still(pid_of(worker)))
    alive.unlink(missing_ok=True)
    time.sleep(1.5)
    assert not alive.exists(), "three times as long as between two looks"


def test_needless_messages_make_one_attempt(platform: Platform) -> None:
    app = make_celery(platform.settings)
    run = platform.submit(steps=10)
    for _ in range(10):
        notify_workers(app)
    app.close()
    platform.worker()
    platform.worker()
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"
    platform.until(lambda: not list((platform.settings.broker_folder / "queue").iterdir()))
    assert endings(platform, run.id) == ["succeeded"]


def test_a_worker_outlives_messages_that_nobody_can_read_and_a_folder_that_is_gone(platform: Platform) -> None:
    worker = platform.worker()
    queue = platform.settings.broker_folder / "queue"
    for content in (b"", b"{half", b"[]", b"{}", b"\xff"):
        message = queue / "0_x.longtail.msg"
        message.write_bytes(content)
        platform.until(lambda message=message: not message.exists())  # type: ignore[misc]
        assert platform.until_state(platform.submit(steps=1).id, "succeeded", "failed").state == "succeeded"
    shutil.rmtree(platform.settings.broker_folder)
    assert platform.until_state(platform.submit(steps=1).id, "succeeded", "failed").state == "succeeded"
    platform.until(queue.exists)
    assert worker.is_alive()


def test_a_killed_worker_loses_nothing(platform: Platform) -> None:
    worker = platform.worker(step_seconds=1)
    run = platform.submit(steps=12)
    platform.until_step(run.id, 2)
    orphan = platform.attempts(run.id)[0].pid
    assert alive(orphan)
    os.kill(pid_of(worker), signal.SIGKILL)
    platform.worker()
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"
    assert endings(platform, run.id) == ["lost", "succeeded"]
    assert not alive(orphan)
    assert platform.client.metrics(run.id).series["reward_mean"].steps == list(range(12))
    starts = [line.message for line in platform.client.logs(run.id) if line.code == "started"]
    assert "at step 0 " in starts[0]
    assert "at step 0 " not in starts[1], "it resumes from its checkpoint"


@only_with_all
def test_a_worker_that_was_frozen_past_its_lease_writes_nothing_more(platform: Platform) -> None:
    frozen = platform.worker(step_seconds=0.3)
    run = platform.submit(steps=12)
    platform.until_step(run.id, 2)
    os.kill(pid_of(frozen), signal.SIGSTOP)
    platform.worker()
    platform.until(lambda: platform.client.run(run.id).attempt == 2)
    assert not alive(platform.attempts(run.id)[0].pid)
    os.kill(pid_of(frozen), signal.SIGCONT)
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"
    assert endings(platform, run.id) == ["lost", "succeeded"]
    assert platform.client.metrics(run.id).series["reward_mean"].steps == list(range(12))


def test_cancel_is_quick_and_thorough(platform: Platform) -> None:
    platform.worker(step_seconds=0.2)
    run = platform.submit("deaf", steps=1000)
    platform.until_step(run.id, 1)
    pids = [int(pid) for pid in (platform.settings.run_folder(run.id) / "pids").read_text().split()]
    assert all(alive(pid) for pid in pids)
    started = time.monotonic()
    assert platform.client.cancel(run.id).cancel_requested
    platform.until_state(run.id, "cancelled")
    assert time.monotonic() - started < QUICK
    assert [pid for pid in pids if alive(pid)] == []
    assert endings(platform, run.id) == ["cancelled"]


def test_a_queued_run_is_cancelled_at_once(platform: Platform) -> None:
    cancelled, other = platform.submit(), platform.submit()
    assert platform.client.cancel(cancelled.id).state == "cancelled"
    platform.worker()
    platform.until_state(other.id, "succeeded")
    assert endings(platform, cancelled.id) == []


def test_an_engine_that_lost_one_of_its_workers_is_resumed(platform: Platform) -> None:
    platform.worker()
    run = platform.until_state(platform.submit("worker-lost", steps=3).id, "succeeded", "failed")
    assert run.state == "succeeded"
    first, _ = platform.attempts(run.id)
    assert (endings(platform, run.id), first.error) == (["lost", "succeeded"], "worker 1 died")


def test_a_killed_engine_is_resumed_up_to_the_limit(platform: Platform) -> None:
    platform.worker(step_seconds=600)
    run = platform.submit()
    for number in (1, 2, 3):
        platform.until(lambda n=number: (now := platform.client.run(run.id)).attempt == n and now.state == "running")  # type: ignore[misc]
        pid = platform.attempts(run.id)[-1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    run = platform.until_state(run.id, "failed")
    assert endings(platform, run.id) == ["lost"] * 3
    assert run.error == "given up after 3 lost attempts; the last: the engine was killed by signal 9"


def test_a_worker_that_shuts_down_hands_its_run_over_at_a_step_boundary(platform: Platform) -> None:
    worker = platform.worker(step_seconds=1)
    run = platform.submit(steps=10)
    platform.until_step(run.id, 2)
    worker.terminate()
    assert ended(worker) == 0
    run = platform.client.run(run.id)
    assert run.state == "queued"
    assert platform.attempts(run.id)[0].error == f"stopped after step {run.step - 1}"
    platform.worker()
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"
    assert endings(platform, run.id) == ["handed_over", "succeeded"]
    starts = [line.message for line in platform.client.logs(run.id) if line.code == "started"]
    assert f"at step {run.step} " in starts[1], "nothing is done twice"


def test_a_worker_that_shuts_down_does_not_wait_for_a_long_step(platform: Platform) -> None:
    worker = platform.worker(step_seconds=600)
    run = platform.until_state(platform.submit().id, "running")
    began = time.monotonic()
    worker.terminate()
    assert ended(worker) == 0
    assert time.monotonic() - began < platform.settings.handover_seconds + platform.settings.grace_seconds + QUICK
    assert platform.client.run(run.id).state == "queued"
    assert endings(platform, run.id) == ["handed_over"]
    platform.client.cancel(run.id)


def test_pause_and_resume_at_a_step_boundary(platform: Platform) -> None:
    platform.worker(step_seconds=0.5)
    run = platform.submit(steps=20)
    platform.until_step(run.id, 2)
    assert platform.client.pause(run.id).pause_requested
    paused = platform.until_state(run.id, "paused", "succeeded", "failed")
    assert (paused.state, paused.pause_requested) == ("paused", False)
    assert 2 <= paused.step < 20
    other = platform.submit("other", steps=1)
    assert platform.until_state(other.id, "succeeded").state == "succeeded", "a paused run holds no worker"
    platform.client.resume(run.id)
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"
    assert endings(platform, run.id) == ["handed_over", "succeeded"]
    assert platform.client.metrics(run.id).series["reward_mean"].steps == list(range(20))


def test_a_pause_taken_back_in_time_does_no_harm(platform: Platform) -> None:
    platform.worker(step_seconds=0.5)
    run = platform.submit(steps=4)
    platform.until_state(run.id, "running")
    platform.client.pause(run.id)
    platform.client.resume(run.id)
    assert platform.until_state(run.id, "succeeded", "failed").state == "succeeded"


def test_a_cancelled_run_is_retried_as_a_new_one(platform: Platform) -> None:
    platform.worker(step_seconds=0.5)
    old = platform.submit(steps=20)
    platform.until_step(old.id, 3)
    platform.client.cancel(old.id)
    platform.until_state(old.id, "cancelled")
    new = platform.client.retry(old.id)
    assert new.parent_id == old.id
    assert platform.until_state(new.id, "succeeded", "failed").state == "succeeded"
    assert platform.client.metrics(new.id).series["reward_mean"].steps == list(range(20))
    assert platform.client.run(old.id).state == "cancelled"


def test_an_engine_ends_with_its_worker_even_if_nobody_reaps(platform: Platform) -> None:
    """As on another host, where only the guardian can end it."""
    worker = platform.worker(step_seconds=600)
    run = platform.until_state(platform.submit("deaf").id, "running")
    pids = [int(pid) for pid in (platform.settings.run_folder(run.id) / "pids").read_text().split()]
    os.kill(pid_of(worker), signal.SIGKILL)
    platform.until(lambda: not any(alive(pid) for pid in pids))
    platform.client.cancel(run.id)
    platform.worker()
    assert platform.until_state(run.id, "cancelled").state == "cancelled"


def test_a_run_that_needs_a_label_waits_for_a_worker_that_has_it(platform: Platform) -> None:
    platform.worker()
    picky, other = platform.submit(needs="gpu:h200"), platform.submit()
    platform.until_state(other.id, "succeeded")
    assert platform.client.run(picky.id).state == "queued"
    platform.worker(LONGTAIL_LABELS='["gpu:h200"]')
    assert platform.until_state(picky.id, "succeeded").attempt == 1
