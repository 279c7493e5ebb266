"""A worker killed while it trains its drafter: what a new one goes on with."""

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from crew import microsteps_of

from engine.checkpoint.drafter_snapshots import SnapshotWriter, newest_snapshot
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.cluster.worker import Worker
from engine.config import RunConfig, parse
from engine.drafter.held_out_evaluation import UNJUDGED
from engine.rollout.interface import Request, Sampling

REQUESTS = [Request(index, index // 2, tuple(range(3 + index // 2, 13))) for index in range(20)]
EVERY = 16
WRITTEN_SECONDS = 60.0
ROOT = Path(__file__).parents[4]
TRAINS_UNTIL_KILLED = """
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
sys.path[:0] = ["tests/unit/cluster/spot_training"]
from test_drafter_resume import begin

worker = begin(Path(sys.argv[1]), Path(sys.argv[2]))
micro_step, microsteps = worker.spot._trainer.micro_step, count(1)


def told(batch):
    losses, made = micro_step(batch), next(microsteps)
    print(made, flush=True)
    if made == int(sys.argv[3]):
        Event().wait()
    return losses


worker.spot._trainer.micro_step = told
worker.train_drafter(0)
"""


def config(model: Path) -> RunConfig:
    return parse(
        {
            "model": {"path": str(model)},
            "rollout": {"max_batch": 8, "max_prompt_tokens": 16},
            "speculation": {"strategies": [{"depth": 2, "verify": 2}], "tuner": {"name": "fixed"}},
            "drafter": {"path": None, "spot": {"tokens_per_microbatch": 64, "passes": 10**5}},
            "cluster": {"workers": 1, "device": "cpu"},
            "checkpoint": {"drafter_every_microsteps": EVERY},
        }
    )


def begin(model: Path, out: Path) -> Worker:
    """A worker after one rollout and a whole checkpoint of it in ``out``/whole."""
    worker = Worker(0, config(model), "", out)
    worker.rollout(0, REQUESTS, Sampling(max_new_tokens=32))
    (out / "whole").mkdir(parents=True)
    worker.stage()
    worker.write(out / "whole")
    return worker


def train_one_step(worker: Worker) -> TrainedSession | None:
    """In the tail of step 0."""
    calls = iter((False, True))
    worker._step, worker._halt.is_set = 0, lambda: next(calls)  # type: ignore[method-assign]
    return worker.train_drafter(0)


def steps_of(worker: Worker) -> float:
    assert worker.spot
    return microsteps_of(worker.spot)


@pytest.fixture(scope="module")
def killed(random_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The folder of a run killed with SIGKILL in its first session, just before a snapshot, and the micro-steps that it had made.

    It stands still before it is killed, for as long as the thread takes that writes the snapshot before.
    """
    out, made = tmp_path_factory.mktemp("killed"), 4 * EVERY - 1
    command = [sys.executable, "-c", TRAINS_UNTIL_KILLED, str(random_model), str(out), str(made)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout
    assert any(int(line) == made for line in process.stdout)
    deadline = time.monotonic() + WRITTEN_SECONDS
    while time.monotonic() < deadline and last_snapshot(out) < made - EVERY:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL
    return out, made


def last_snapshot(out: Path) -> float:
    """How many micro-steps lie behind it; -1 if there is none."""
    found = newest_snapshot(out / "drafter_0")
    return found.progress.microsteps if found else -1


def test_a_kill_loses_at_most_the_configured_micro_steps(killed: tuple[Path, int]) -> None:
    out, made = killed
    found = newest_snapshot(out / "drafter_0")
    assert found
    assert made - EVERY <= found.progress.microsteps <= made


def test_a_new_worker_goes_on_with_the_session(killed: tuple[Path, int], random_model: Path) -> None:
    out, _ = killed
    found = newest_snapshot(out / "drafter_0")
    assert found
    worker = Worker(0, config(random_model), "", out)
    worker.load(out / "whole")
    assert worker.spot
    published = worker.spot.published
    assert not torch.equal(published["fc.weight"], found.state["drafter"]["fc.weight"])
    session = train_one_step(worker)
    assert session
    assert session.report.microsteps == 1
    assert session.report.after is not UNJUDGED, "what the killed session learnt counts, however soon this one stops"
    assert steps_of(worker) == found.progress.microsteps + 1
    assert torch.equal(worker.spot.published["fc.weight"], published["fc.weight"]), "nobody has published the session's weights yet"
    train_one_step(worker)
    assert steps_of(worker) == found.progress.microsteps + 2, "it is resumed once only"


def test_a_snapshot_of_a_later_step_than_the_checkpoints_is_gone_on_with(
    killed: tuple[Path, int], random_model: Path, tmp_path: Path
) -> None:
    """The run was killed some steps after its newest checkpoint."""
    out, _ = killed
    found = newest_snapshot(out / "drafter_0")
    assert found
    writer = SnapshotWriter(tmp_path / "drafter_0")
    writer.put(replace(found, progress=replace(found.progress, target=7)))
    writer.close()
    shutil.copytree(out / "buffer_0", tmp_path / "buffer_0")
    worker = Worker(0, config(random_model), "", tmp_path)
    worker.load(out / "whole")
    train_one_step(worker)
    assert steps_of(worker) == found.progress.microsteps + 1


def test_a_snapshot_from_before_the_checkpoint_is_left_alone(killed: tuple[Path, int], random_model: Path) -> None:
    out, _ = killed
    worker = Worker(0, config(random_model), "", out)
    worker.load(out / "whole")
    worker._load_target(1)
    train_one_step(worker)
    assert steps_of(worker) == 1
