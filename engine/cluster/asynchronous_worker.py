"""A worker that generates for later steps while it learns (``rollout.scheduling.asynchronous``)."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from engine.cluster.distributed_rollout.background_generation import BackgroundGeneration
from engine.cluster.shares import Interrupted, LearnShare, RolloutShare
from engine.cluster.worker import Worker
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.rollout.interface import Request, RolloutStatistics, Sampling


class AsynchronousWorker(Worker):
    """Its engine generates from ``rollout`` on until it gets new weights, at the end of ``learn``. All else that needs the engine comes
    between the two."""

    _generation: BackgroundGeneration | None = None
    _awaited: Collection[int] = ()
    _interrupted: Interrupted | None = None
    _late: RolloutStatistics | None = None
    """Of what was generated beside the last update."""

    def rollout(
        self, step: int, requests: Sequence[Request], sampling: Sampling, watch: bool = True, ahead: Sequence[Request] = ()
    ) -> RolloutShare:
        """Returns with this worker's share of ``step``, and goes on with ``ahead``."""
        self._begin(step, watch)
        self._awaited = {request.id for request in requests}
        finished = self.spot.finished_beside() if self.spot and self._keeps_features else None
        with self._early_stop.rollout(step, requests):
            on_finish, all_requests = self._early_stop.finished, [*requests, *ahead]
            generation = BackgroundGeneration(self.engine, all_requests, self._awaited, sampling, on_finish, finished)
            self._generation = generation
            generated = generation.awaited()
            self.engine.beside(None)  # from now on the learner computes, too
        statistics = self._observed(generated.entries, generated.statistics)
        if self._late:
            self._late.add(statistics)
            statistics, self._late = self._late, None
        completions = [completion for completion in generated.completions if completion.request.id in self._awaited]
        return RolloutShare(completions, statistics, time.time(), generation.goes_on)

    def forecast(self) -> float | None:
        """Seconds until its share of the step is done; of what is ahead nobody waits."""
        progress = self.engine.progress(time.monotonic())
        remaining = {request: tokens for request, tokens in progress.remaining.items() if request in self._awaited}
        return self._forecaster.seconds(replace(progress, remaining=remaining))

    def learn(self, rows: Sequence[TrainingRow], inferred: Sequence[Inferred] | None, step: int) -> LearnShare:
        share = super().learn(rows, inferred, step)
        interrupted, self._interrupted = self._interrupted, None
        return replace(share, interrupted=interrupted)

    def _load_target(self, version: int) -> None:
        self._interrupt()
        super()._load_target(version)

    def _interrupt(self) -> None:
        if self._generation is None:
            return
        late, self._interrupted = self._generation.end()
        self._late = self._observed(late.entries, late.statistics)
        self._generation = None
