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
SHARE, ALLOWANCE = 0.02, 2.0
"""What trials may be expected to lose: a share of all steps, in steps of the best arm, of which so much is there at first or saved up."""
FARTHEST = 30.0
"""As many more steps are saved up as a drafter needs to catch up, but no more than these: one that is much farther behind is not tried."""
ASKED_SHARE = 0.005
"""The same of n-grams, which are tried whatever is believed of them: what they find changes from text to text."""


@dataclass
class ArmChoice:
    """``arm`` for the steps that are ``left``, while the weights are of these ``versions``."""

    arm: int
    left: int
    versions: tuple[int, int]


class Exploration:
    """Each arm is chosen with the probability that it is the best, and never if that is implausible. Evidence that grows old becomes
    uncertain, so that an arm that was given up gets its turn; but not before a share of the steps pays what that is expected to lose."""

    def __init__(self, arms: Sequence[Strategy], rng: random.Random) -> None:
        self._ngrams = {index for index, arm in enumerate(arms) if arm.drafter == "ngram"}
        self._credit, self._behind = ALLOWANCE, 0.0
        self._idle: int | None = None  # steps since the last trial of n-grams; the first one is free, whatever it may cost
        self._rng = rng

    def choose(self, arms: Sequence[int], score: Array, covariance: Array, seconds: Array, late: Array) -> int:
        """One of ``arms``, by their log values: of mean ``score`` [A] and ``covariance`` [A, A]. ``seconds`` [A]: logs of a step's;
        ``late`` [A]: steps of its own that an arm's drafter catches up in first."""
        best = max(arms, key=score.__getitem__)
        hoped = self._hoped(arms, best, score, covariance) if covariance.any() else score

        dearer = np.exp(seconds - seconds[best])
        behind = np.maximum(late * dearer - late[best], 0.0)  # who need not catch up saves nothing by it, but puts it off
        lost = TRIAL * -np.expm1(score - score[best]) * dearer + behind
        self._behind = min(float(behind[arms].max()), FARTHEST)
        steps = math.inf if self._idle is None else self._idle
        due = [arm for arm in arms if arm in self._ngrams and arm != best and lost[arm] <= ASKED_SHARE * steps]
        chosen = max(due or [arm for arm in arms if lost[arm] <= self._credit], key=hoped.__getitem__)
        if not due:
            self._credit -= float(lost[chosen])
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
        self._credit = min(self._credit + SHARE * steps, ALLOWANCE + self._behind)
        self._idle = None if self._idle is None else self._idle + steps

    def state(self) -> dict[str, Any]:
        version, numbers, gauss = self._rng.getstate()
        return {"rng": [version, list(numbers), gauss], "credit": self._credit, "behind": self._behind, "idle": {"ngram": self._idle}}

    def load_state(self, state: dict[str, Any]) -> None:
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self._credit, self._behind = state.get("credit", ALLOWANCE), state.get("behind", 0.0)  # an earlier version had neither
        self._idle = state["idle"].get("ngram")
