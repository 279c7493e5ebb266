"""Whether two groups of runs differ by more than their seeds: an exact permutation test."""

from collections.abc import Sequence
from itertools import combinations
from math import comb

MIN_SEEDS = 3
LEVEL = 0.05
TOLERANCE = 1e-12


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


def verdict(baseline: Sequence[float], values: Sequence[float]) -> str:
    """What can be said about the difference of two groups."""
    if not baseline or not values:
        return ""
    if too_few(len(baseline), len(values)):
        return "too few seeds"
    p = p_value(baseline, values)
    return f"{'differs' if p < LEVEL else 'no clear difference'}, p = {p:.2g}"
