"""Ends a rollout once enough groups are complete. Each message may be late, doubled or lost: it is repeated until the worker is done."""

from collections.abc import Collection, Sequence
from typing import Any

from engine.rollout.interface import Completion


class EarlyStop:
    """Of the rollout of ``step``: cuts it short once ``quota`` groups are complete, those of workers that are done included. ``control``
    makes a method of an actor one that is called beside what the actor does."""

    def __init__(self, step: int, actors: Sequence[Any], quota: int, control: Any) -> None:
        self._step, self._actors, self._quota, self._control = step, actors, quota, control
        self._complete: dict[int, int] = {}
        self.asked: dict[Any, int] = {}
        """Questions without an answer yet, by their references."""

    @property
    def reached(self) -> bool:
        return sum(self._complete.values()) >= self._quota

    def remind(self, generating: Collection[int]) -> None:
        """Asks the workers that are ``generating``, or tells them to stop. To be called now and then."""
        for worker in generating:
            actor = self._actors[worker]
            if self.reached:
                self._control(actor.stop_early).remote(self._step)
            elif worker not in self.asked.values():
                self.asked[self._control(actor.complete_groups).remote(self._step)] = worker

    def answered(self, reference: Any, groups: int) -> None:
        """A worker's answer; not of one that is done."""
        worker = self.asked.pop(reference)
        self._complete[worker] = max(groups, self._complete.get(worker, 0))

    def done(self, worker: int, completions: Sequence[Completion]) -> None:
        """The worker has generated its share."""
        groups = {completion.request.group for completion in completions}
        stopped = {completion.request.group for completion in completions if completion.finish == "abort"}
        self._complete[worker] = len(groups - stopped)
