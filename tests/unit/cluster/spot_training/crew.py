"""Two real workers in this process, each without a process group: what they share is what they are told."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.checkpoint.drafter_snapshots import SessionProgress
from engine.cluster.spot_training.trained_session import TrainedSession
from engine.cluster.spot_training.worker_side import SpotTraining
from engine.cluster.worker import Worker
from engine.config import RunConfig, parse
from engine.drafter.spot_trainer import JUDGED_FIRST
from engine.rollout.interface import Request, RolloutStatistics, Sampling

SAMPLING = Sampling(max_new_tokens=24)
MICROSTEPS = JUDGED_FIRST[0] + 1
"""Enough for a session to be judged."""


def config(model: Path, **spot: Any) -> RunConfig:
    return parse(
        {
            "model": {"path": str(model)},
            "rollout": {"max_batch": 8, "max_prompt_tokens": 16},
            "speculation": {"strategies": [{"depth": 2, "verify": 2}], "tuner": {"name": "fixed"}, "suffix": {"enabled": False}},
            "drafter": {"path": None, "spot": {"tokens_per_microbatch": 128, "least_tokens": 0, "learning_rate": 3e-3, **spot}},
            "cluster": {"workers": 1, "device": "cpu"},
        }
    )


def requests(step: int, worker: int, count: int = 16) -> list[Request]:
    """Of one prompt each."""
    base = (2 * step + worker) * count
    return [Request(base + index, index, tuple(3 + (base + index + offset) % 200 for offset in range(6))) for index in range(count)]


class Crew:
    """``call`` is that of ``DrafterVersions``."""

    def __init__(self, config: RunConfig, workers: int = 2) -> None:
        self.workers = [Worker(0, config, "") for _ in range(workers)]
        for rank, worker in enumerate(self.workers):
            worker.rank = rank

    def call(self, method: str, *arguments: Any, workers: Iterable[int] | None = None) -> list[Any]:
        chosen = range(len(self.workers)) if workers is None else workers
        return [getattr(self.workers[worker], method)(*arguments) for worker in chosen]

    def rollout(self, step: int) -> RolloutStatistics:
        """Everybody's share; the statistics of all."""
        statistics = RolloutStatistics()
        for rank, worker in enumerate(self.workers):
            statistics.add(worker.rollout(step, requests(step, rank), SAMPLING).statistics)
        return statistics

    def train(self, workers: Sequence[int], microsteps: int = MICROSTEPS) -> dict[int, TrainedSession]:
        """Sessions that are told to stop after ``microsteps``, each by its own worker."""
        sessions = {}
        for rank in workers:
            worker = self.workers[rank]
            assert worker.spot
            session = worker.spot.train(_after(microsteps, worker.spot), SessionProgress(0))
            assert session
            sessions[rank] = session
        return sessions


def _after(microsteps: int, spot: SpotTraining) -> Callable[[], bool]:
    """True once the optimizer of ``spot`` has made so many more steps."""
    begun = microsteps_of(spot)
    return lambda: microsteps_of(spot) >= begun + microsteps


def microsteps_of(spot: SpotTraining) -> float:
    """Micro-steps behind the trainer's optimizer."""
    optimizer: Any = spot._trainer._optimizers[0]
    return next((state["step"].item() for state in optimizer.state.values()), 0.0)
