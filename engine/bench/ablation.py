"""``bench tuner --ablate``: what each part of the tuner goodput is worth, in seconds of rollouts.

The rollouts are virtual: the speculator, its tuner and the tail's plans are the real ones, and so is the cost table of the model on this
machine, but the clock and what is accepted are simulated. On a real machine noise of 5 % hides what is looked for here, 1 %. Each strategy
departs from the table by an error of its own, the machine's speed drifts, steps have noise and hiccups, acceptance moves from step to
step, and in 3 seeds of 10 the drafter is broken in one of them. All variants of a seed meet the same. N-grams do not take part: what they
find depends on texts.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import numpy as np

from engine.config import SpeculationConfig
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tail_mode import TailMode
from engine.speculation.tuner import acceptance_rates, goodput
from engine.speculation.tuner.cost_table import CostTable
from engine.speculation.tuner.exploration import Exploration
from engine.speculation.tuner.step_time_correction import StepTimeCorrection

CASES: Mapping[str, tuple[int, bool]] = {"1": (1, False), "4": (4, False), "16": (16, False), "32": (32, False), "long tail": (32, True)}
"""Requests at once, and whether their lengths differ."""
RATES = (0.1, 0.35, 0.6)
"""Of a draft's first token to be accepted, and of each further one."""
SEEDS, STEPS = 8, 5
TOKENS, LIMIT, PROMPT, GROUP = 256, 1024, 60, 4
BREAKS, BROKEN, BROKEN_AT = 0.3, 0.12, 3
TABLE_ERROR, MACHINE_ERROR, DRIFT, NOISE = 0.12, 0.3, 0.003, 0.08
HICCUPS = 0.01


@dataclass
class VirtualRequest:
    """A running request that ends after ``needed`` tokens; a drafted token at a position is accepted if ``luck`` there is below ``rate``."""

    id: int
    group: int
    needed: int
    rate: float
    luck: Any
    length: int = PROMPT
    generated: int = 0
    drafted: int = 0

    def accepts(self, shape: Strategy, limit: int) -> int:
        """Of a draft cut to ``limit`` tokens. Branches beside the likeliest one help, the more of them are checked."""
        share = min(1.0, limit / (2.0 * shape.depth))
        rate = 1 - (1 - self.rate) ** (1 + 0.35 * math.log2(shape.top_k) * share)
        tokens = 0
        while tokens < min(shape.depth, limit) and self.luck[self.generated + tokens] < rate:
            tokens += 1
        return tokens


class VirtualMachine:
    """Takes as long as ``costs`` say, but for errors that are its own. ``seed`` decides those."""

    def __init__(self, costs: CostTable, seed: int) -> None:
        self._costs, self._rng = costs, random.Random(seed)
        self._errors: dict[Strategy, float] = {}
        self._speed = self._rng.gauss(0, MACHINE_ERROR)

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """Of a decode step; what the drafter catches up with is in it."""
        if strategy not in self._errors:
            self._errors[strategy] = random.Random(f"{self._speed} {strategy}").gauss(0, TABLE_ERROR)
        self._speed += self._rng.gauss(0, DRIFT)
        late = self._costs.catch_up(context) if strategy != OFF and context.behind > strategy.depth + 1 else 0.0
        noise = self._errors[strategy] + self._rng.gauss(0, NOISE)
        hiccup = self._rng.uniform(2, 6) if self._rng.random() < HICCUPS else 1.0
        return hiccup * math.exp(self._speed) * (self._costs.seconds(strategy, context) * math.exp(noise) + late)


class _Uncorrected(StepTimeCorrection):
    def update(self, arm: int, bucket: int, log_ratio: float, steps: int) -> None:
        pass


def _best(_: Exploration, arms: list[int], score: Any, covariance: Any) -> int:  # noqa: ARG001
    return max(arms, key=score.__getitem__)


def _own(positions: list[list[float]]) -> list[float]:
    return POSTERIOR([[accepted, drafted, 0.0, 0.0] for accepted, drafted, _, _ in positions])


POSTERIOR = acceptance_rates._posterior
PARTS: Mapping[str, tuple[Any, str, Any]] = {
    "correction of step times": (goodput, "StepTimeCorrection", _Uncorrected),
    "trials": (Exploration, "choose", _best),
    "longer decisions once confirmed": (goodput, "PATIENT", 1),
    "guesses from sibling shapes": (acceptance_rates, "_posterior", _own),
    "less certainty at new weights": (acceptance_rates.AcceptanceRates, "widen", lambda _: None),
    "forgetting by steps": (acceptance_rates, "FOLLOWED", 1e9),
    "catch-up of the drafter": (goodput.GoodputTuner, "_late", lambda *_: 0.0),
    "last steps": (goodput, "LAST", 0.0),
    "least gain": (goodput, "LEAST_GAIN", 0.0),
    "plans for the tail": (TailMode, "strategies", lambda *_: None),
}
"""What is put in the place of each part to switch it off."""
