"""Which responses a simulated step generates, on which workers: the engine's own schedule, assignment and backlog.

Requests stand for groups, which the engine never parts. Nobody reads their tokens, so that ranges are in their places.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import cast

import numpy as np
from numpy.typing import NDArray

from engine.cluster.distributed_rollout.request_assignment import assign_requests
from engine.config import RunConfig
from engine.experience.partial_rollouts import Group, Member
from engine.experience.scheduling_state import SchedulingState
from engine.planner.simulation.response_lengths import ResponseLengths
from engine.rollout.interface import Completion, PartialResponse, Request

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """A rollout's requests by worker, [W, R] in queue order, filled up with zeros in front: whole ``lengths``, tokens ``begun`` before,
    and the ``group`` (-1: none) and ``member`` that each is."""

    lengths: Numbers
    begun: Numbers
    group: Numbers
    member: Numbers
    quota: int | None

    @property
    def remaining(self) -> Numbers:
        return self.lengths - self.begun


class Workload:
    """Of a run, step by step."""

    def __init__(self, config: RunConfig, lengths: ResponseLengths, workers: int) -> None:
        self._config, self._lengths, self._workers = config, lengths, workers
        self._schedule = SchedulingState(config)
        self._groups: list[Group] = []
        self._tokens: Numbers = np.zeros((0, 1), np.int64)
        self._carried: dict[int, Numbers] = {}
        self._usual: list[list[Request]] | None = None

    @property
    def wanted(self) -> int:
        return self._config.algorithm.prompts_per_step

    def next(self, step: int) -> Shares:
        """What ``step`` is to generate."""
        scheduling, algorithm = self._config.rollout.scheduling, self._config.algorithm
        self._groups = self._schedule.backlog.take(ceil(self.wanted * scheduling.over_sampling))
        positions = np.array([group.position for group in self._groups], np.int64)
        new = np.array([position not in self._carried for position in positions.tolist()])
        drawn = self._lengths.draw(step, positions[new], algorithm.group_size, self._config.rollout.max_new_tokens)
        known = self._carried | dict(zip(positions[new].tolist(), drawn, strict=True))
        self._tokens = np.stack([known[position] for position in positions.tolist()])
        quota = self.wanted - sum(group.complete for group in self._groups) if scheduling.over_sampling > 1 else None
        return self._shares(self._assigned(), quota)

    def finished(self, generated: Numbers, complete: NDArray[np.bool_]) -> None:
        """``generated`` [G, M]: tokens of all members by now; ``complete`` [G]: groups that are."""
        scheduling = self._config.rollout.scheduling
        if scheduling.longest_first:
            ended = [_completion(self._request(index), int(n)) for index in np.flatnonzero(complete) for n in self._tokens[index]]
            self._schedule.learn(ended)
        if scheduling.over_sampling == 1:
            return
        self._carried = {}
        kept = set(np.flatnonzero(complete)[: self.wanted].tolist())
        remaining = [index for index in range(len(self._groups)) if index not in kept]
        if scheduling.partial:
            self._schedule.backlog.groups = [self._after(index, generated[index]) for index in remaining]
            self._carried = {self._groups[index].position: self._tokens[index] for index in remaining}

    def _after(self, index: int, generated: Numbers) -> Group:
        ended = generated >= self._tokens[index]
        members = (Member(_begun(int(tokens)), "stop" if over else None) for tokens, over in zip(generated, ended, strict=True))
        return replace(self._groups[index], members=tuple(members))

    def _request(self, index: int) -> Request:
        """Stands for a group, as far as its least member is."""
        group = self._groups[index]
        least = min(len(member.begun.tokens) for member in group.members)
        return Request(group.position, index, (group.position,), _begun(least))

    def _assigned(self) -> list[list[Request]]:
        plain = not self._config.rollout.scheduling.longest_first and self._config.rollout.scheduling.over_sampling == 1
        if plain and self._usual is not None:
            return self._usual
        requests = [self._request(index) for index, group in enumerate(self._groups) if not group.complete]
        self._usual = assign_requests(requests, self._workers, self._schedule.expected(requests))
        return self._usual

    def _shares(self, assigned: list[list[Request]], quota: int | None) -> Shares:
        size = self._config.algorithm.group_size
        most = max(len(share) for share in assigned) * size
        group, member = np.full((self._workers, most), -1), np.zeros((self._workers, most), np.int64)
        for worker, share in enumerate(assigned):
            owned = np.repeat(np.array([request.group for request in share], np.int64), size)
            group[worker, most - len(owned) :] = owned
            member[worker, most - len(owned) :] = np.tile(np.arange(size), len(share))
        begun = np.array([[len(each.begun.tokens) for each in one.members] for one in self._groups]) if self._carried else 0 * self._tokens
        real = group >= 0
        lengths, known = (np.where(real, values[group, member], 0) for values in (self._tokens, begun))
        known = np.minimum(known, lengths)
        order = np.argsort(lengths > known, axis=1, kind="stable")  # what has ended before waits for nothing
        lengths, known, group, member = (np.take_along_axis(each, order, 1) for each in (lengths, known, group, member))
        return Shares(lengths, known, group, member, quota)


def _begun(tokens: int) -> PartialResponse:
    return PartialResponse(cast("tuple[int, ...]", range(tokens)), (), ((0, tokens),) if tokens else ())


def _completion(request: Request, tokens: int) -> Completion:
    return Completion(request, cast("tuple[int, ...]", range(tokens)), (), "stop", 0, 0)
