"""A machine that decodes: how long responses take it, by which strategies, and what is accepted. Made up, not measured."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.config import SpeculationConfig

STEP_MS, REQUEST_MS, DRAFT_MS = 3.7, 0.12, 0.35
POINTS = 64
"""At most, of the course of a worker's decoding in a step."""


class Arm(NamedTuple):
    """``skill``: what it takes from the drafter's acceptance."""

    strategy: str
    depth: int
    skill: float


OFF = Arm("off", 0, 0.0)
WIDE, TREE, FLAT = Arm("eagle d8 k4 v24", 8, 1.0), Arm("eagle d6 k3 v11", 6, 0.98), Arm("eagle d3 k2 v5", 3, 0.97)
LONG, CHAIN, SHORT = Arm("eagle d5 k1 v5", 5, 0.93), Arm("eagle d3 k1 v3", 3, 0.93), Arm("eagle d2 k1 v2", 2, 0.93)
NGRAM = Arm("ngram d8 k1 v8", 8, 0.8)
ARMS = {1: (WIDE, TREE, NGRAM), 2: (TREE, WIDE, NGRAM), 4: (FLAT, TREE, LONG), 8: (LONG, FLAT), 16: (CHAIN, FLAT), 32: (SHORT, CHAIN)}
"""By the least number of requests of a bucket, a power of two; the first is the one that the tuner comes to prefer."""
LARGEST = max(ARMS)
EXPLORED, EXPLORED_AT_FIRST = 0.06, 0.5

Use = tuple[int, bool]
"""A bucket, and whether there is speculation."""
Course = list[tuple[float, int, str]]
"""Seconds, running requests from then on, and their strategy."""


@dataclass
class Tally:
    """What an arm's use added up to."""

    seconds: float = 0.0
    pulls: float = 0.0
    requests: float = 0.0
    accepted: float = 0.0


class _Mix:
    """The arms of a bucket, each with its share of the passes and the tokens that a pass of it brings a request.

    A pass of the mix brings ``advance`` tokens, and takes ``fixed`` seconds and ``each`` for every request.
    """

    def __init__(self, shares: Sequence[tuple[Arm, float]], rate: float, pace: float) -> None:
        self.arms = [(arm, share, 1 + sum((arm.skill * rate) ** place for place in range(1, arm.depth + 1))) for arm, share in shares]
        self.advance = sum(share * advance for _, share, advance in self.arms)
        self.pace = pace / 1000
        self.fixed = sum(share * self.seconds(arm, 1, 0) for arm, share in shares)
        self.each = sum(share * self.seconds(arm, 0, 1) for arm, share in shares)

    def seconds(self, arm: Arm, pulls: float, requests: float) -> float:
        return self.pace * (pulls * (STEP_MS + DRAFT_MS * arm.depth) + requests * REQUEST_MS * (1 + arm.depth / 3))


class Decoder:
    """Of one step: ``learned``, from 0 to 1, is how good the drafter is, ``pace`` what a step of this model costs."""

    def __init__(self, speculation: SpeculationConfig, step: int, learned: float, pace: float) -> None:
        self._speculation, self._rate = speculation, 0.56 + 0.26 * learned
        self._mixes = {(bucket, True): _Mix(_explored(arms, step), self._rate, pace) for bucket, arms in ARMS.items()}
        self._mixes |= {(bucket, False): _Mix([(OFF, 1.0)], self._rate, pace) for bucket in ARMS}
        self.tallies: dict[tuple[int, Arm], Tally] = defaultdict(Tally)

    def acceptance(self, arm: Arm, position: int) -> float:
        """Probability that the draft is right up to ``position``: falls with depth, rises as the drafter learns."""
        return (arm.skill * self._rate) ** (position + 1)

    def decode(self, lengths: Sequence[int]) -> tuple[float, Course]:
        """Seconds that one worker needs, and their course. From the end of one response to that of the next its batch stays as it is."""
        used: dict[Use, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        seconds, position, course = 0.0, 0, Course()
        for batch, length in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
            use = min(1 << (batch.bit_length() - 1), LARGEST), self._speculation.enabled and batch <= self._speculation.threshold
            mix, (pulls, requests) = self._mixes[use], used[use]
            if length > position:
                course.append((seconds, batch, mix.arms[0][0].strategy))
            passes = (length - position) / mix.advance
            used[use] = pulls + passes, requests + passes * batch
            seconds, position = seconds + passes * (mix.fixed + mix.each * batch), length
        for use, (pulls, requests) in used.items():
            self._count(use, pulls, requests)
        return seconds, [*course[:: 1 + len(course) // POINTS], (seconds, 0, OFF.strategy)]

    def _count(self, use: Use, pulls: float, requests: float) -> None:
        mix = self._mixes[use]
        for arm, share, advance in mix.arms:
            tally = self.tallies[use[0], arm]
            tally.seconds += share * mix.seconds(arm, pulls, requests)
            tally.pulls += share * pulls
            tally.requests += share * requests
            tally.accepted += share * requests * (advance - 1)


def _explored(arms: Sequence[Arm], step: int) -> list[tuple[Arm, float]]:
    """Each arm with its share of the passes: the tuner explores less and less."""
    explored = EXPLORED + EXPLORED_AT_FIRST * 0.85**step
    best, *others = (*arms, OFF)
    return [(best, 1 - explored), *((arm, explored / len(others)) for arm in others)]
