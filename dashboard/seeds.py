"""Runs that differ in their seed only, as groups, and whether two groups differ by more than luck."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from statistics import fmean, stdev

from backend.schemas.comparison import ComparedRun

MIN_SEEDS = 3
LEVEL = 0.05
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Group:
    """Runs of one configuration, each with another seed. Two of the same seed are one observation: the earlier one counts."""

    items: tuple[ComparedRun, ...]

    @property
    def seeds(self) -> int:
        return len(self.items)

    def values(self, field: str) -> list[float]:
        """Of a field of ComparedRun, without the runs that lack it."""
        return [value for item in self.items if (value := getattr(item, field)) is not None]


@dataclass(frozen=True)
class Sample:
    """``deviation`` is None of fewer than two values."""

    count: int
    mean: float
    deviation: float | None


def groups(items: Sequence[ComparedRun]) -> list[Group]:
    """That of the first item comes first."""
    found: dict[str, dict[int, ComparedRun]] = {}
    for item in items:
        rest = {key: value for key, value in item.run.config.items() if key not in ("name", "seed")}
        found.setdefault(json.dumps(rest, sort_keys=True), {}).setdefault(item.run.seed, item)
    return [Group(tuple(members.values())) for members in found.values()]


def sample(values: Sequence[float]) -> Sample | None:
    if not values:
        return None
    return Sample(len(values), fmean(values), stdev(values) if len(values) > 1 else None)


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Exact permutation test: the share of all ways to deal the values to two groups of these sizes whose means lie at least as far
    apart. It assumes no distribution."""
    pool, size = [*one, *other], len(one)
    total = sum(pool)

    def gap(part: float) -> float:
        return abs(part / size - (total - part) / (len(pool) - size))

    seen = gap(sum(one))
    apart = sum(gap(sum(chosen)) >= seen - TOLERANCE * max(1.0, seen) for chosen in combinations(pool, size))
    return apart / comb(len(pool), size)


def least_p(one: int, other: int) -> float:
    """The smallest p-value that groups of these sizes can have: by this test few seeds cannot show a difference, however large."""
    return (2 if one == other else 1) / comb(one + other, one)


def too_few(one: int, other: int) -> bool:
    return min(one, other) < MIN_SEEDS or least_p(one, other) > LEVEL
