"""Which arm to try besides the best one, and how much that may cost."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.step_time_correction import Array

PLAUSIBLE = 2.0
"""Standard deviations by which an arm may be better than it seems."""
ALLOWANCE, RENEWED, SHARE = 2.0, 0.02, 0.005
"""What trials may lose: so many tokens of each request after every change of weights, but no more than a share of what it got under
the weights before; and a share of all tokens."""
MISJUDGED = math.log(1.25)
"""By how much plain decoding may be better than it seems: it is seldom seen where drafting looks better, and must not be slower."""
TRIAL = 3
"""Decode steps for which an arm is tried. The first is not timed: a drafter that was out of use catches up in it."""
RETRY: Mapping[str, int] = {"none": 100, "eagle": 100, "ngram": 25}
"""Decode steps after which a drafter that was given up is tried again if the allowance permits. N-gram drafts have nothing to catch up
with, and end themselves where they do not pay."""


@dataclass
class ArmChoice:
    """``arm`` for ``steps`` steps. ``price`` is None unless this is a trial: tokens a second that the best arm would bring to each
    request meanwhile."""

    arm: int
    steps: int
    context: Context
    price: float | None = None

    def __post_init__(self) -> None:
        self.left = self.steps

    def suits(self, context: Context) -> bool:
        """Whether the weights are the same as when it was made."""
        made = self.context
        return made.target_version == context.target_version and made.drafter_version == context.drafter_version


class Exploration:
    """An arm is tried with the probability that it is the best, never if that is implausible, and, whatever is believed of it, if its
    drafter was not asked for long and could win. Trials stop once they have lost their allowance, and none begins that is expected to
    lose another one on top of it, but for those of plain decoding: speculation that is slower than nothing must be found out."""

    def __init__(self, arms: Sequence[Strategy], rng: random.Random) -> None:
        self._drafters = [arm.drafter for arm in arms]
        self._off = list(arms).index(OFF)
        self._rng = rng
        self._credit = self._allowance = ALLOWANCE
        self._tokens = 0.0
        self._idle: dict[str, int] = {}

    def choose(self, arms: list[int], score: Array, losses: Array, potential: Array, covariance: Array) -> int:
        """One of ``arms``. ``score`` [A] and ``covariance`` [A, A]: log value of all arms; ``potential`` [A]: with full acceptance;
        ``losses`` [A]: tokens of each request that a trial is expected to lose."""
        best = max(arms, key=score.__getitem__)
        bearable = [losses[arm] <= self._credit + self._allowance or self._drafters[arm] == "ngram" for arm in range(len(score))]
        tried = [arm for arm in arms if arm in (best, self._off) or (self._credit > 0 and bearable[arm])]
        hopes = [score[arm] + MISJUDGED if arm == self._off else potential[arm] for arm in range(len(score))]
        overdue = [arm for arm in tried if self._overdue(arm) and hopes[arm] > score[best]]
        if overdue and self._credit > 0:
            return max(overdue, key=lambda arm: (arm != self._off, score[arm]))
        variance = covariance.diagonal() + covariance[best, best] - 2 * covariance[best]
        gain = score + np.sqrt(np.maximum(variance, 0)) * [min(self._rng.gauss(0, 1), PLAUSIBLE) for _ in score]
        return max(tried, key=gain.__getitem__)

    def note(self, arm: int, steps: int, tokens: float) -> None:
        """``steps`` of ``arm`` brought each request ``tokens``."""
        self._idle = {drafter: idle + steps for drafter, idle in self._idle.items()}
        self._idle[self._drafters[arm]] = 0
        self._credit = min(self._credit + SHARE * tokens, self._allowance)
        self._tokens += tokens

    def asked(self, arm: int) -> None:
        """The drafter of ``arm`` had nothing to offer."""
        self._idle[self._drafters[arm]] = 0

    def charge(self, tokens: float) -> None:
        """A trial lost ``tokens`` of each request; what it gained is negative. The debt is limited: a hiccup may have made it."""
        self._credit = max(self._credit - tokens, -2 * self._allowance)

    def renew(self) -> None:
        """New weights: every drafter is worth a trial."""
        self._credit = self._allowance = min(ALLOWANCE, RENEWED * self._tokens) if self._tokens else ALLOWANCE
        self._tokens = 0.0
        self._idle.clear()

    def _overdue(self, arm: int) -> bool:
        drafter = self._drafters[arm]
        return self._idle.get(drafter, RETRY[drafter]) >= RETRY[drafter]

    def state(self) -> dict[str, Any]:
        version, numbers, gauss = self._rng.getstate()
        return {
            "rng": [version, list(numbers), gauss],
            "credit": self._credit,
            "allowance": self._allowance,
            "tokens": self._tokens,
            "idle": dict(self._idle),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        version, numbers, gauss = state["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self._credit, self._idle = state["credit"], dict(state["idle"])
        self._allowance, self._tokens = state.get("allowance", ALLOWANCE), state.get("tokens", 0.0)  # older states have neither
