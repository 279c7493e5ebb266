"""Rollouts that a tuner has to do well in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.bench.tuner_simulation.drafts import Skill
from engine.bench.tuner_simulation.machines import CPU, GPU, Pace, table
from engine.speculation.tuner.cost_table import CostTable

STEADY = Pace()
Lengths = Callable[[np.random.Generator, int], np.ndarray]
GOOD, FAIR, BAD = Skill(0.8), Skill(0.6), Skill(0.03)
OTHER = table((11.0, 0.7, 0.1, 0.1), (3.0, 0.0, 0.3, 0.1))
"""A machine with other habits than CPU: checking is cheap there, and drafting is not."""


@dataclass(frozen=True)
class Case:
    """RL steps in a row, with the drafter's ``skills`` in each and new weights after each. ``told``: the cost table that a tuner starts
    with; None: the true one."""

    name: str
    slots: int
    requests: int
    lengths: Lengths
    skills: Sequence[Skill]
    costs: CostTable = CPU
    told: CostTable | None = None
    pace: Pace = STEADY
    limit: int = 512


def uneven(mean: float, spread: float = 0.4) -> Lengths:
    """Lognormal, as long on average in all groups as others."""

    def lengths(rng: np.random.Generator, count: int) -> np.ndarray:
        return _cut(mean * np.exp(spread * rng.standard_normal(count) - spread**2 / 2))

    return lengths


def grouped(mean: float, between: float = 0.6, within: float = 0.4, group: int = 8) -> Lengths:
    """Long-tailed: responses to one prompt are alike, those to different ones are not."""

    def lengths(rng: np.random.Generator, count: int) -> np.ndarray:
        prompts = np.repeat(rng.standard_normal(-(-count // group)), group)[:count]
        return _cut(mean * np.exp(between * prompts + within * rng.standard_normal(count) - (between**2 + within**2) / 2))

    return lengths


def even(length: int) -> Lengths:
    return lambda _, count: np.full(count, length)


def _cut(lengths: np.ndarray, least: int = 8, most: int = 1024) -> np.ndarray:
    found: np.ndarray = np.clip(lengths, least, most).astype(int)
    return found


def grows(*learned: float) -> tuple[Skill, ...]:
    return tuple(map(Skill, learned))


TRAINED = grows(0.03, 0.03, 0.3, 0.6, 0.75, 0.8, 0.8, 0.8)
CASES = (
    Case("batch 1", 1, 8, uneven(160), (GOOD,) * 6),
    Case("batch 4", 4, 16, uneven(160), (GOOD,) * 6),
    Case("batch 16", 16, 48, uneven(160), (GOOD,) * 6),
    Case("batch 32", 32, 64, uneven(160), (GOOD,) * 6),
    Case("even lengths", 16, 16, even(128), (GOOD,) * 8),
    Case("short responses, batch 16", 16, 16, even(64), (FAIR,) * 10, limit=128),
    Case("16 tokens each, batch 64", 64, 64, even(16), (FAIR,) * 20, limit=16),
    Case("long tail of 32", 32, 32, grouped(160), (GOOD,) * 6, limit=1024),
    Case("long tail of 128", 128, 128, grouped(160), (GOOD,) * 6, limit=1024),
    Case("drafter turns good, batch 1", 1, 6, uneven(120), TRAINED),
    Case("drafter turns good, batch 4", 4, 12, uneven(120), TRAINED),
    Case("drafter turns good, batch 16", 16, 32, uneven(120), TRAINED),
    Case("drafter turns good at once, batch 32", 32, 64, uneven(120), grows(0.03, 0.03, 0.03, 0.8, 0.8, 0.8)),
    Case("drafter turns bad, batch 4", 4, 16, uneven(160), grows(0.8, 0.8, 0.8, 0.03, 0.03, 0.03, 0.03, 0.03)),
    Case("nothing pays", 8, 16, grouped(120), (BAD,) * 8),
    Case("nothing pays, batch 64", 64, 64, uneven(60), (Skill(0.2),) * 8),
    Case("uneven machine", 8, 24, uneven(160), (GOOD,) * 6, pace=Pace(0.2, 0.01, 150)),
    Case("wrong cost table", 4, 16, uneven(160), (GOOD,) * 6, told=OTHER),
    Case("trees pay", 1, 8, uneven(240), (FAIR,) * 6, GPU),
    Case("GPU, long tail of 32", 32, 32, grouped(160), (FAIR,) * 6, GPU, limit=1024),
    Case("n-grams pay", 2, 8, uneven(160), (Skill(0.1, 0.7, 0.9),) * 6),
)
