"""What ``rollout.scheduling`` does about the tail of such a rollout: the order of its requests, and what of too many is stopped."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from engine.config import RunConfig
from engine.events import Handling


class GeneratedResponse(NamedTuple):
    """``length`` in tokens, and whether it was ``stopped`` there."""

    length: int
    stopped: bool


def started(run: RunConfig) -> int:
    """Responses that a step begins."""
    return ceil(run.algorithm.prompts_per_step * run.rollout.scheduling.over_sampling) * run.algorithm.group_size


def scheduled(run: RunConfig, lengths: Sequence[int]) -> tuple[list[int], list[GeneratedResponse]]:
    """The lengths that are learnt from, of so many as were ``started``, and all requests as workers get them in turn. The groups that
    are complete first are kept; when the last of them is, the rest is stopped."""
    size = run.algorithm.group_size
    groups = [lengths[first : first + size] for first in range(0, len(lengths), size)]
    kept = sorted(range(len(groups)), key=lambda place: max(groups[place]))[: run.algorithm.prompts_per_step]
    end = max(max(groups[place]) for place in kept)
    requests = [GeneratedResponse(min(length, end), length > end) for length in lengths]
    if run.rollout.scheduling.longest_first:
        requests.sort(reverse=True)
    return [length for place in sorted(kept) for length in groups[place]], requests


def marks(run: RunConfig, share: Sequence[GeneratedResponse], carried: int, busy: float) -> list[tuple[float, Handling, int]]:
    """What a worker's timeline tells of its ``share``, which took it ``busy`` seconds; so many of its responses were ``carried`` over."""
    tokens = sum(request.length for request in share) if run.rollout.scheduling.longest_first else 0
    found: list[tuple[float, Handling, int]] = [
        (0.0, "longest_first", tokens),
        (0.0, "carried", carried),
        (busy, "stopped", sum(request.stopped for request in share)),
    ]
    return [mark for mark in found if mark[2]]
