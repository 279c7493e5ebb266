"""One rollout over all workers: the coordinator's Ray shell. Workers that are done train the drafter until the last one is done."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cluster import coordinator
from engine.cluster.coordinator import Command, Span, StartTraining
from engine.drafter.trainer import TrainingReport
from engine.rollout.base import Completion, Request, RolloutStatistics, Sampling


@dataclass(frozen=True)
class Rollout:
    """Completions in the order of the requests. ``reports``: the drafter training in the tail, by worker."""

    completions: list[Completion]
    statistics: RolloutStatistics
    spans: tuple[Span, ...]
    reports: Mapping[int, TrainingReport]
    ended: float

    def seconds(self, *activities: str) -> float:
        """Worker seconds spent in any of ``activities``."""
        return sum(span.end - span.start for span in self.spans if span.activity in activities)


class Tail:
    """Runs one rollout of RL step ``step``; a worker trains once ``min_idle_workers`` wait."""

    def __init__(self, step: int, actors: Sequence[Any], min_idle_workers: int) -> None:
        self._step = step
        self._actors = actors
        self._state = coordinator.State(min_idle_workers=min_idle_workers)
        self._generating: dict[Any, int] = {}
        self._training: dict[Any, int] = {}
        self._reports: dict[int, TrainingReport] = {}

    def run(self, shares: Sequence[Sequence[Request]], sampling: Sampling, on_share: Callable[[Sequence[Completion]], None]) -> Rollout:
        """Generates ``shares``, one a worker; returns once all are done and nobody trains any more."""
        import ray  # late: ray reads the settings of ``ray_session`` when it is imported

        workers = tuple(range(len(self._actors)))
        self._post(coordinator.RolloutStarted(self._step, workers))
        self._generating = {self._actors[worker].rollout.remote(self._step, shares[worker], sampling): worker for worker in workers}
        completions: list[Completion] = []
        statistics = RolloutStatistics()
        ended = time.time()
        while self._generating or self._training:
            reference = ray.wait([*self._generating, *self._training], num_returns=1)[0][0]
            if reference in self._training:
                self._trained(self._training.pop(reference), ray.get(reference))
                continue
            share = ray.get(reference)
            self._post(coordinator.WorkerDone(self._step, self._generating.pop(reference)))
            ended = time.time()
            statistics.add(share.statistics)
            completions.extend(share.completions)
            on_share(share.completions)
        completions.sort(key=lambda completion: completion.request.id)
        return Rollout(completions, statistics, self._state.spans, self._reports, ended)

    def _trained(self, worker: int, report: TrainingReport | None) -> None:
        if report is not None:
            self._reports[worker] = report
        self._post(coordinator.TrainingStopped(self._step, worker))

    def _post(self, event: coordinator.Event) -> None:
        self._state, commands = coordinator.advance(self._state, event, time.time())
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        actor = self._actors[command.worker]
        if isinstance(command, StartTraining):
            self._training[actor.train_drafter.remote()] = command.worker
            self._post(coordinator.TrainingStarted(command.epoch, command.worker))
        else:
            actor.halt.options(concurrency_group="control").remote()
