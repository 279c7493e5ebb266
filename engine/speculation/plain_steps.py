"""Which decode steps a rollout has if nobody drafts."""

from collections import defaultdict, deque
from collections.abc import Sequence
from heapq import heappop, heappush

LENGTHS = 128
"""Steps of one batch size are taken together if their mean lengths are alike up to so many tokens."""
Steps = dict[tuple[int, int], float]
"""Decode steps, or tokens that each request of a batch got, by batch size and ``LENGTHS`` of mean length."""


def plain_steps(responses: Sequence[tuple[int, int]], most: int) -> Steps:
    """``responses`` in the order in which they began: tokens that were known then, and those that were generated. Each gets one a step; at
    most ``most`` run at once, and the next begins when one has ended."""
    steps: Steps = defaultdict(float)
    waiting = deque((length, tokens) for length, tokens in responses if tokens > 0)
    running: list[tuple[int, int]] = []
    now = total = 0
    while waiting or running:
        while waiting and len(running) < most:
            length, tokens = waiting.popleft()
            heappush(running, (now + tokens, length - now))
            total += length - now
        end, batch = running[0][0], len(running)
        _add(steps, batch, total / batch + now, end - now)
        now = end
        while running and running[0][0] == end:
            total -= heappop(running)[1]
    return steps


def _add(steps: Steps, batch: int, length: float, count: int) -> None:
    """``count`` steps, in which the mean length grows by a token each, from ``length`` on."""
    while count > 0:
        bucket = int(length) // LENGTHS
        part = min(count, (bucket + 1) * LENGTHS - int(length))
        steps[batch, bucket] += part
        length, count = length + part, count - part
