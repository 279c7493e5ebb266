"""Inference in the tail of a rollout: whoever is done infers its own groups, and then those that are complete where others still generate.

All would wait for it afterwards, so that what it saves is certain. Training that was decided on goes before the groups of others.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from engine.cluster.distributed_rollout.coordinator import ActivitySpan
from engine.rollout.interface import Completion

ASK_EVERY = 0.1
"""Seconds between two questions for a complete group, if there was none."""


class TailInference:
    """Of the rollout of ``step``. ``begin`` begins the inference of whole groups on a worker and returns the call's reference; None: there
    is nothing to infer. ``control`` makes a method of an actor one that is called beside what the actor does."""

    def __init__(self, step: int, actors: Sequence[Any], begin: Callable[[int, Sequence[Completion]], Any] | None, control: Any) -> None:
        self._step, self._actors, self._begin, self._control = step, actors, begin, control
        self._taken: set[int] = set()
        self._turns = cycle(range(len(actors)))
        self._ask_at = 0.0
        self._began: dict[int, float] = {}
        self._spans: list[ActivitySpan] = []
        self.inferring: dict[Any, int] = {}
        """Who infers, by the references of the calls."""
        self.asked: dict[Any, tuple[int, int]] = {}
        """Questions without an answer yet, by their references: who was asked, and for whom."""

    def waiting(self, idle: Collection[int]) -> set[int]:
        """Those of ``idle`` that nobody was asked for."""
        return set(idle).difference(self.inferring.values(), (helper for _, helper in self.asked.values())) if self._begin else set()

    def done(self, worker: int, completions: Sequence[Completion], last: bool) -> None:
        """The worker has generated its share, of which it infers what nobody has taken; but what the ``last`` one has is left to all."""
        if not last:
            self._take(worker, completions)
        self._taken.update(completion.request.group for completion in completions)

    def inferred(self, reference: Any) -> int:
        """Who has."""
        self._ask_at = 0.0
        worker = self.inferring.pop(reference)
        self._spans.append(self._span(worker))
        return worker

    def spans(self) -> list[ActivitySpan]:
        """Who inferred when, until now. Between two groups of one worker it may have waited for ``ASK_EVERY``."""
        joined: list[ActivitySpan] = []
        for span in sorted((*self._spans, *map(self._span, self.inferring.values())), key=lambda span: (span.worker, span.start)):
            before = joined[-1] if joined else None
            if before and before.worker == span.worker and span.start - before.end <= ASK_EVERY:
                joined[-1] = replace(before, end=span.end)
            else:
                joined.append(span)
        return joined

    def _span(self, worker: int) -> ActivitySpan:
        return ActivitySpan(worker, "INFERENCE", self._began[worker], time.time())

    def remind(self, idle: Collection[int], generating: Collection[int]) -> None:
        """Asks those who generate, in turns, for groups for those who are ``idle``. To be called now and then."""
        if not generating or time.monotonic() < self._ask_at:
            return
        for helper in self.waiting(idle):
            worker = next(turn for turn in self._turns if turn in generating)
            question = self._control(self._actors[worker].complete_group)
            self.asked[question.remote(self._step, frozenset(self._taken))] = worker, helper
            self._ask_at = time.monotonic() + ASK_EVERY

    def answered(self, reference: Any, completions: Sequence[Completion], idle: Collection[int]) -> None:
        """A group, or nothing if there was none. Who is not ``idle`` any more takes none."""
        _, helper = self.asked.pop(reference)
        if helper in idle:
            self._take(helper, completions)

    def _take(self, worker: int, completions: Sequence[Completion]) -> None:
        new = [completion for completion in completions if completion.request.group not in self._taken]
        self._taken.update(completion.request.group for completion in new)
        if self._begin and new:
            self.inferring[self._begin(worker, new)] = worker
            self._began[worker] = time.time()


def with_inference(spans: Sequence[ActivitySpan], inferred: Sequence[ActivitySpan]) -> Iterator[ActivitySpan]:
    """``spans``, but for what workers ``inferred`` while they were IDLE; each worker's in the order of time."""
    for span in spans:
        start = span.start
        for each in inferred if span.activity == "IDLE" else ():
            began, ended = max(start, each.start), min(span.end, each.end)
            if each.worker == span.worker and began < ended:
                if start < began:
                    yield replace(span, start=start, end=began)
                yield replace(each, start=began, end=ended)
                start = ended
        if start < span.end:
            yield replace(span, start=start)
