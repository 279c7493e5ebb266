"""Many sessions of real workers: quick to stop, equal versions, no growing memory, and a failure that leaves no trace."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from crew import SAMPLING, Crew, config, requests
from sizes import ALL, only_with_all

from engine.cluster.spot_training.drafter_versions import DrafterVersions, same
from engine.drafter.packing import MicroBatch
from engine.drafter.recipe import Recipe, TrainingTruth
from engine.drafter.spot_trainer import JUDGED_FIRST
from engine.speculation.remaining_length import RemainingLengthPredictor

SESSIONS = 50 if ALL else 24


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@only_with_all
def test_many_sessions_grow_no_memory_and_keep_all_engines_equal(random_model: Path) -> None:
    """A buffer of some steps is full after ten sessions: from then on the process may grow by a few allocations only."""
    crew = Crew(config(random_model, buffer_bytes=2**20))
    versions = DrafterVersions(crew.call)
    grown, seen = 0, [0]
    for step in range(SESSIONS):
        statistics = crew.rollout(step)
        published = versions.publish(crew.train([step % 2] if step % 3 else [0, 1]), statistics)
        assert published
        seen.append(published.version)
        same([worker.engine.loaded_weights() for worker in crew.workers])
        if step == 9:
            grown = resident()
    assert seen == sorted(seen)
    assert seen[-1] > 3, "some were better"
    assert resident() - grown < 24 * 2**20


def test_training_stops_within_a_micro_step(random_model: Path) -> None:
    worker = Crew(config(random_model, passes=10_000), workers=1).workers[0]
    assert worker.spot
    trainer, made = worker.spot._trainer, 0
    micro_step = trainer.micro_step

    def counted(batch: MicroBatch, unroll: int | None = None, recipe: Recipe | None = None) -> float:
        nonlocal made
        made += 1
        return micro_step(batch, unroll, recipe)

    trainer.micro_step = counted  # type: ignore[method-assign]
    for step in range(4):
        worker.rollout(step, requests(step, 0), SAMPLING)
        begun_at_halt: list[int] = []

        def halt(step: int = step, judged: int = made + JUDGED_FIRST[-1], begun_at_halt: list[int] = begun_at_halt) -> None:
            while made <= judged:
                time.sleep(0.001)
            worker.halt(step)
            begun_at_halt.append(made)

        halting = threading.Thread(target=halt, daemon=True)
        halting.start()
        session = worker.train_drafter(step)
        halting.join(60)
        assert session
        assert session.set_up > 0
        assert begun_at_halt, "there was enough to train on until the halt"
        assert made <= begun_at_halt[0] + 1, "the one that was about to begin"
    assert worker.train_drafter(3) is None, "the rollout is over"


def test_messages_of_another_step_change_nothing(random_model: Path) -> None:
    worker = Crew(config(random_model), workers=1).workers[0]
    worker.rollout(5, requests(5, 0), SAMPLING)
    assert worker.train_drafter(4) is None
    worker.halt(4)
    worker.halt(6)
    assert worker.train_drafter(5) is not None
    worker.halt(5)
    assert worker.train_drafter(5) is None
    worker.rollout(6, requests(6, 0), SAMPLING)
    assert worker.train_drafter(6) is not None


def test_a_training_that_fails_leaves_the_drafter_as_it_was(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Crew(config(random_model), workers=1).workers[0]
    worker.rollout(0, requests(0, 0), SAMPLING)
    assert worker.spot
    before = worker.drafter_weights()
    healthy = Recipe.loss

    def poisoned(recipe: Recipe, passes: Sequence[torch.Tensor], truth: TrainingTruth, *rest: Any) -> torch.Tensor:
        return healthy(recipe, [predicted * float("nan") for predicted in passes], truth, *rest)

    monkeypatch.setattr(Recipe, "loss", poisoned)
    with pytest.raises(FloatingPointError, match="nan"):
        worker.train_drafter(0)
    monkeypatch.setattr(Recipe, "loss", healthy)
    after = worker.drafter_weights()
    assert all(torch.equal(before[name], after[name]) for name in before)
    session = worker.train_drafter(0)
    assert session
    assert session.report.loss > 0
    assert all(weight.isfinite().all() for weight in worker.drafter_weights().values()), "nor did the optimizer keep anything"


def test_a_worker_says_how_long_it_will_need_while_it_generates(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds of the processor, which others on the machine take nothing of."""
    monkeypatch.setattr(time, "monotonic", time.process_time)
    worker = Crew(config(random_model), workers=1).workers[0]
    worker.rollout(0, requests(0, 0), SAMPLING)
    told: list[tuple[float, float]] = []
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.005):
            seconds = worker.forecast()
            if seconds:
                told.append((time.monotonic(), seconds))

    asker = threading.Thread(target=ask)
    asker.start()
    worker.rollout(1, requests(1, 0, count=64), SAMPLING)
    ended = time.monotonic()
    done.set()
    asker.join()
    assert worker.forecast() == 0.0
    assert len(told) > 3
    limit = RemainingLengthPredictor().remaining(0, 0, SAMPLING.max_new_tokens)
    assert limit == SAMPLING.max_new_tokens
    middle = told[len(told) // 2]
    assert 0.1 < middle[1] / (ended - middle[0]) < 10, "of the right order"
    assert told[-1][1] < told[0][1]
