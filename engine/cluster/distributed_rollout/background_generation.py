"""A rollout that goes on in a thread of its own once the responses that are waited for are there, while the policy learns from them."""

import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.cluster.shares import Interrupted
from engine.rollout.interface import Completion, Request, RolloutEngine, RolloutStatistics, Sampling

ABORT_EVERY = 0.05
"""Seconds until an engine is told again to stop: one that is just about to begin forgets what it was told before."""


class Finished(Protocol):
    def __call__(self, completion: Completion) -> None: ...


@dataclass(frozen=True)
class Generated:
    """What an engine made since it was last asked: responses that ended, features of some of them by request id, and its statistics."""

    completions: list[Completion]
    features: dict[int, Tensor]
    statistics: RolloutStatistics


class BackgroundGeneration:
    """``requests``, those first that are ``awaited`` (ids), by ``engine``, whose statistics and features are of nothing else."""

    def __init__(
        self, engine: RolloutEngine, requests: Sequence[Request], awaited: Collection[int], sampling: Sampling, on_finish: Finished
    ) -> None:
        """``on_finish`` sees the awaited ones as they finish."""
        self._engine, self._requests, self._sampling = engine, requests, sampling
        self._awaited, self._on_finish = frozenset(awaited), on_finish
        self._left, self._open = set(awaited), len(requests)
        self._ended: list[Completion] = []
        self._features: dict[int, Tensor] = {}
        self._tokens = 0
        self._answer: Future[Generated] = Future()
        self._whole: Future[list[Completion]] = Future()
        threading.Thread(target=self._run, name="generation", daemon=True).start()

    @property
    def goes_on(self) -> bool:
        """Whether a response is not finished yet."""
        return self._open > 0

    def awaited(self) -> Generated:
        """Waits until the awaited ones are finished; what there is by then. What fails in the generation is raised here, or by ``end``."""
        return self._answer.result()

    def end(self) -> tuple[Generated, Interrupted]:
        """Ends what still runs as it is; what was made since ``awaited``, and all those responses that were not."""
        while not self._whole.done():
            self._engine.abort()
            wait_for([self._whole], timeout=ABORT_EVERY)
        completions = self._whole.result()
        late = self._taken()
        fresh = sum(completion.fresh for completion in completions)
        rest = [completion for completion in completions if completion.request.id not in self._awaited]
        return late, Interrupted(rest, self._tokens - fresh)

    def _run(self) -> None:
        torch.set_flush_denormal(True)  # as in the worker's other threads
        try:
            if not self._left:
                self._answer.set_result(self._taken())
            completions = self._engine.generate(self._requests, self._sampling, self._finish)
        except BaseException as error:
            if not self._answer.done():
                self._answer.set_exception(error)
            self._whole.set_exception(error)
            return
        if not self._answer.done():
            self._answer.set_result(self._taken())
        self._whole.set_result(completions)

    def _finish(self, completion: Completion) -> None:
        self._ended.append(completion)
        self._open -= 1
        if completion.request.id not in self._awaited:
            return
        self._on_finish(completion)
        self._left.discard(completion.request.id)
        if not self._left:
            self._answer.set_result(self._taken())

    def _taken(self) -> Generated:
        """Of the engine between two of its steps. It may have the features of a response that ends in the same step, but comes next."""
        statistics, self._features = self._engine.take_statistics(), self._features | self._engine.take_features()
        self._tokens += statistics.tokens
        ended, self._ended = self._ended, []
        features = {each.request.id: self._features.pop(each.request.id) for each in ended if each.request.id in self._features}
        return Generated(ended, features, statistics)
