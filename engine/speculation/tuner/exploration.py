"""Thompson sampling: which arm to use next, the best one or one that may be better."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.speculation.strategy import Strategy
from engine.speculation.tuner.acceptance_rates import shape
from engine.speculation.tuner.step_time_correction import Array

PLAUSIBLE = 1.3
"""Standard deviations by which an arm may be better than it seems."""
TRIAL = 3
"""Decode steps for which an arm is tried. The first is not timed: a drafter that was out of use catches up in it."""
FIRST, SHARE, ALLOWANCE = 3.0, 0.02, 1.0
"""What trials may be expected to lose, in steps of the best arm: at first, then a share of all steps, of which so much may be saved up."""
ASKED_SHARE = 0.005
"""The same of n-grams, and of the shapes of a new drafter once one was tried: these are tried whatever is believed of them. What n-grams
find changes from text to text."""
DEAREST = 30.0
"""What one trial of a new drafter may be expected to lose, in the same steps."""


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
        self._shapes = {index: shape(arm) for index, arm in enumerate(arms) if arm.drafter == "eagle"}
        self._credit = FIRST
        self._idle: int | None = None  # steps since the last trial of n-grams; the first one is free, whatever it may cost
        self._untried: set[str] = set()  # shapes of drafts that nobody has asked the newest drafter for
        self._saved = 0.0  # what the next of their trials may lose
        self._rng = rng

    def renew(self) -> None:
        """A new drafter is tried once in each shape, whatever was believed of the last one, when a share of the steps pays for it: the
        cheapest first, so that of drafters that come fast the dear ones are not tried."""
        self._untried.update(self._shapes.values())

    def choose(self, arms: Sequence[int], score: Array, covariance: Array, seconds: Array, late: Array) -> int:
        """One of ``arms``, by their log values: of mean ``score`` [A] and ``covariance`` [A, A]. ``seconds`` [A]: logs of a step's;
        ``late`` [A]: steps of its own that an arm's drafter catches up in first."""
        best = max(arms, key=score.__getitem__)
        hoped = self._hoped(arms, best, score, covariance) if covariance.any() else score

        def lost(arm: int) -> float:
            steps = TRIAL * -math.expm1(score[arm] - score[best]) + late[arm]
            return 0.0 if arm == best else max(steps * math.exp(seconds[arm] - seconds[best]) - late[best], 0.0)

        steps = math.inf if self._idle is None else self._idle
        due = [arm for arm in arms if arm in self._ngrams and arm != best and lost(arm) <= ASKED_SHARE * steps]
        untried = [arm for arm in arms if self._shapes.get(arm) in self._untried and lost(arm) <= DEAREST]
        owed = [arm for arm in sorted(untried, key=lost)[:1] if not due and lost(arm) <= self._saved]
        chosen = max(due or owed or [arm for arm in arms if lost(arm) <= self._credit], key=hoped.__getitem__)
        if owed:
            self._saved -= lost(chosen)
        elif not due:
            self._credit -= lost(chosen)
        self._idle = 0 if chosen in self._ngrams else self._idle
        self._untried.discard(self._shapes.get(chosen, ""))
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
        self._credit = max(self._credit, min(self._credit + SHARE * steps, ALLOWANCE))
        self._idle = None if self._idle is None else self._idle + steps
        share = SHARE if len(self._untried) == len(set(self._shapes.values())) else ASKED_SHARE
        self._saved = min(self._saved + share * steps, DEAREST) if self._untried else 0.0

    def state(self) -> dict[str, Any]:
        version, numbers, gauss = self._rng.getstate()
        untried = {"shapes": sorted(self._untried), "saved": self._saved}
        return {"rng": [version, list(numbers), gauss], "credit": self._credit, "idle": {"ngram": self._idle}, "untried": untried}

    def load_state(self, state: dict[str, Any]) -> None:
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self._credit = min(state.get("credit", FIRST), FIRST)  # an earlier version had none, and another one another
        self._idle = state["idle"].get("ngram")
        untried = state.get("untried", {"shapes": self._shapes.values() if state["idle"].get("eagle") else (), "saved": 0.0})
        self._untried, self._saved = set(self._shapes.values()).intersection(untried["shapes"]), untried["saved"]
