"""Thompson sampling: which arm to use next, the best one or one that may be better."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.speculation.strategy import Strategy
from engine.speculation.tuner.step_time_correction import Array

PLAUSIBLE = 1.3
"""Standard deviations by which an arm may be better than it seems."""
TRIAL = 3
"""Decode steps for which an arm is tried. The first is not timed: a drafter that was out of use catches up in it."""
SHARE = 0.005
"""Of all steps, in steps of the best arm, which trials of n-grams may lose: what they find changes from text to text, without new
weights."""


@dataclass
class ArmChoice:
    """``arm`` for ``steps`` steps, while the weights are of these ``versions``."""

    arm: int
    steps: int
    versions: tuple[int, int]

    def __post_init__(self) -> None:
        self.left = self.steps


class Exploration:
    """Each arm is chosen with the probability that it is the best, and never if that is implausible. Evidence that grows old becomes
    uncertain, so that an arm that was given up gets its turn. N-grams get theirs once a share of the steps since their last one pays it."""

    def __init__(self, arms: Sequence[Strategy], rng: random.Random) -> None:
        self._ngrams = {index for index, arm in enumerate(arms) if arm.drafter == "ngram"}
        self._idle: int | None = None  # steps since their last trial; the first one is free, whatever it may cost
        self._rng = rng

    def choose(self, arms: Sequence[int], score: Array, covariance: Array, seconds: Array) -> int:
        """One of ``arms``, by their log values: of mean ``score`` [A] and ``covariance`` [A, A]. ``seconds`` [A]: logs of a step's."""
        best = max(arms, key=score.__getitem__)
        hoped = self._hoped(arms, best, score, covariance) if covariance.any() else score

        def lost(arm: int) -> float:
            return TRIAL * math.exp(seconds[arm] - seconds[best]) * -math.expm1(score[arm] - score[best])

        steps = math.inf if self._idle is None else self._idle
        paid = [arm for arm in arms if arm in self._ngrams and arm != best and lost(arm) <= SHARE * steps]
        chosen = max(paid or arms, key=hoped.__getitem__)
        self._idle = 0 if chosen in self._ngrams else self._idle
        return chosen

    def _hoped(self, arms: Sequence[int], best: int, score: Array, covariance: Array) -> dict[int, float]:
        """What each of ``arms`` may be worth. The draws are of all arms together: those of one shape are right or wrong together, and that
        many are uncertain makes it no likelier that one of them is better."""
        variances, axes = np.linalg.eigh(covariance[np.ix_(arms, arms)])
        errors = axes @ (np.sqrt(np.maximum(variances, 0.0)) * [self._rng.gauss(0, 1) for _ in arms])
        against_best = dict(zip(arms, errors - errors[arms.index(best)], strict=True))
        spread = {arm: covariance[arm, arm] + covariance[best, best] - 2 * covariance[arm, best] for arm in arms}
        return {arm: float(score[arm] + min(against_best[arm], PLAUSIBLE * math.sqrt(max(spread[arm], 0.0)))) for arm in arms}

    def note(self, steps: int) -> None:
        """So many went by."""
        if self._idle is not None:
            self._idle += steps

    def state(self) -> dict[str, Any]:
        version, numbers, gauss = self._rng.getstate()
        return {"rng": [version, list(numbers), gauss], "idle": {"ngram": self._idle}}

    def load_state(self, state: dict[str, Any]) -> None:
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self._idle = state["idle"].get("ngram")
