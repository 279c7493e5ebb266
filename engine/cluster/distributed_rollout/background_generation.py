"""A rollout that goes on in a thread of its own once the responses that are waited for are there, while the policy learns from them."""

import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.cluster.shares import Interrupted
from engine.drafter.data_buffer import Entry
from engine.drafter.finished_responses import FinishedResponses
from engine.rollout.interface import Completion, Request, RolloutEngine, RolloutStatistics, Sampling

ABORT_EVERY = 0.05
"""Seconds until an engine is told again to stop: one that is just about to begin forgets what it was told before."""


class Finished(Protocol):
    def __call__(self, completion: Completion) -> None: ...


@dataclass(frozen=True)
class Generated:
    """What an engine made since it was last asked: responses that ended, what the drafter is to remember of them, and its statistics."""

    completions: list[Completion]
    entries: list[list[Entry]]
    statistics: RolloutStatistics


class BackgroundGeneration:
    """``requests``, those first that are ``awaited`` (ids), by ``engine``, whose statistics are of nothing else."""

    def __init__(
        self,
        engine: RolloutEngine,
        requests: Sequence[Request],
        awaited: Collection[int],
        sampling: Sampling,
        on_finish: Finished,
        finished: FinishedResponses | None = None,
    ) -> None:
        """``on_finish`` sees the awaited ones as they finish; ``finished`` gets all, with their features, and nobody else may use it."""
        self._engine, self._requests, self._sampling = engine, requests, sampling
        self._awaited, self._on_finish, self._finished = frozenset(awaited), on_finish, finished
        self._left, self._open = set(awaited), len(requests)
        self._ended: list[Completion] = []
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
            keep = self._finished.keep if self._finished else None
            completions = self._engine.generate(self._requests, self._sampling, self._finish, keep)
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
        """Of the engine between two of its steps."""
        statistics = self._engine.take_statistics()
        self._tokens += statistics.tokens
        ended, self._ended = self._ended, []
        return Generated(ended, self._finished.take() if self._finished else [], statistics)
