"""The default tuner: most tokens per second, from measured step times and acceptance by draft position."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean, median_low
from typing import Any

import numpy as np

from engine.config import GoodputConfig
from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.acceptance_rates import AcceptanceRates, Array
from engine.speculation.tuner.arm_counts import ArmCounts
from engine.speculation.tuner.cost_table import CostTable, assumed_seconds
from engine.speculation.tuner.step_times import StepTimes

TRIAL, TRUST = 3, 4.0
"""Decode steps of a trial, and of a new choice; and how many measurements of an arm's step time a cost table is worth."""
SHARE, SAVED = 0.02, 4.0
"""Of each request's tokens, what trials may lose; and how many tokens of that can be saved up."""
FIRST_FOUND, FORGETTING = 0.5, 1 / 32
"""How often n-grams are taken to find a draft, and what a step changes of that."""
LENGTHS, LOOKED_UP = 128, 1024
"""Costs are looked up for mean lengths in steps of so many tokens, and so many of them are remembered."""


@dataclass
class ArmRun:
    """Steps in a row of one arm at one batch bucket that nothing was learnt from yet. The one in which it came into use is not timed."""

    arm: int = -1
    bucket: int = 0
    accepted: list[int] = field(default_factory=list)
    log_ratios: list[float] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0


class GoodputTuner:
    """Chooses argmax of (1 + expected accepted) / seconds; plain decoding is one more arm.

    Acceptance is pooled over batch sizes. Seconds are those of the cost table, or a guess, times a correction learnt live. A decision
    holds for ``interval`` steps at one power-of-two bucket of batch sizes. What is believed of both is uncertain: a decision draws
    them as they may be, and tries the arm that is best then (Thompson sampling), unless such trials would lose more than a share of
    all tokens, as far as can be foreseen. Plain decoding comes first: it says how fast the machine is.

    ``predicted(strategy, context)`` gives the seconds of a step before correction, of any strategy.
    """

    def __init__(self, strategies: Sequence[Strategy], config: GoodputConfig, rng: random.Random, costs: CostTable | None) -> None:
        self._arms = list(dict.fromkeys((OFF, *strategies)))
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._ngram = np.array([arm.drafter == "ngram" for arm in self._arms])
        self._interval, self._rng = config.interval, rng
        self._acceptance = AcceptanceRates(self._arms, config)
        self._counts = ArmCounts()
        self._credit, self._found = SAVED, FIRST_FOUND
        self._versions: tuple[int, int] | None = None
        self._predict(costs)

    def take_costs(self, costs: CostTable) -> None:
        """Those of a drafter of another size: how far the old ones were off is forgotten."""
        self._learn()
        self._predict(costs)

    def _predict(self, costs: CostTable | None) -> None:
        self.predicted: Callable[[Strategy, Context], float] = costs.seconds if costs else assumed_seconds
        self._times = StepTimes(list(map(str, self._arms)), TRUST if costs else 0.0)
        self._look_up = lru_cache(LOOKED_UP)(self._log_costs)
        self._restart()

    def _restart(self) -> None:
        self._chosen: dict[int, tuple[int, int]] = {}  # of each bucket the arm, and for how many steps more
        self._run = ArmRun()

    def select(self, context: Context) -> Strategy:
        bucket, versions = context.batch.bit_length(), (context.target_version, context.drafter_version)
        if versions != self._versions:
            self._learn()
            if self._versions is not None:
                self._acceptance.widen()
            self._versions, self._chosen = versions, {}
        arm, left = self._chosen.get(bucket, (-1, 0))
        if left <= 0:
            self._learn()
            arm, left = self._decide(context, arm)
        self._chosen[bucket] = arm, left - 1
        return self._arms[arm] if self._arms[arm].drafter in context.drafters else self.best(context)

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        """Only notes the step: it is learnt from together with the next ones. ``strategy`` may be another than was selected, if there
        was nothing to draft."""
        bucket, arm, run = context.batch.bit_length(), self._index[strategy], self._run
        if "ngram" in context.drafters and self._ngram[self._chosen.get(bucket, (0, 0))[0]]:
            self._found += FORGETTING * (float(self._ngram[arm]) - self._found)
        stays = run.arm == arm
        if not stays or run.bucket != bucket or run.steps >= self._interval:
            self._learn()
            run = self._run = ArmRun(arm, bucket)
        run.accepted.extend(accepted)
        run.seconds += elapsed
        run.steps += 1
        if stays:
            run.log_ratios.append(math.log(max(elapsed, 1e-9)) - self._log_predicted(context)[arm])

    def expected(self, strategy: Strategy) -> float:
        """Mean accepted tokens of a draft, by what was learnt so far."""
        return float(self._acceptance.expected()[self._index[strategy]])

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """A decode step's time, by what was learnt so far."""
        return float(self._seconds(context)[self._index[strategy]])

    def best(self, context: Context) -> Strategy:
        """The arm of highest mean rate; explores nothing, changes nothing."""
        return self._arms[int(self._rates(context, self._acceptance.expected(), self._seconds(context)).argmax())]

    def take_arms(self) -> list[ArmStatistics]:
        self._learn()
        return self._counts.take()

    def state(self) -> dict[str, Any]:
        """Ends the running decisions."""
        self._learn()
        self._restart()
        version, numbers, gauss = self._rng.getstate()
        return {
            "versions": self._versions and list(self._versions),
            "exploration": {"rng": [version, list(numbers), gauss], "credit": self._credit, "found": self._found},
            "acceptance": self._acceptance.state(),
            "times": self._times.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """What was saved of other strategies than these is left out."""
        self._versions, exploration = state["versions"] and tuple(state["versions"]), state["exploration"]
        version, numbers, gauss = exploration["rng"]
        self._rng.setstate((version, tuple(numbers), gauss))
        self._credit, self._found = exploration["credit"], exploration.get("found", FIRST_FOUND)
        self._acceptance.load_state(state["acceptance"])
        if "times" in state:  # states of earlier versions have another correction, which is learnt anew
            self._times.load_state(state["times"])
        self._restart()

    def _decide(self, context: Context, last: int) -> tuple[int, int]:
        """The arm, and for how many steps."""
        if self._times.last is None:
            return self._index[OFF], TRIAL
        accepted, seconds = self._acceptance.expected(), self._seconds(context)
        best = int(self._rates(context, accepted, seconds).argmax())
        rng = np.random.default_rng(self._rng.getrandbits(32))
        doubt = self._times.doubts(context.batch.bit_length()) * rng.standard_normal(len(seconds))
        drawn = int(self._rates(context, self._acceptance.drawn(rng), seconds * np.exp(doubt)).argmax())
        tokens, seconds = self._steps(accepted, seconds)
        loss = TRIAL * float(tokens[best] * seconds[drawn] / seconds[best] - tokens[drawn])
        if drawn != best and loss <= self._credit:
            self._credit -= loss
            return drawn, TRIAL
        return best, self._interval if last == best else TRIAL

    def _rates(self, context: Context, accepted: Array, seconds: Array) -> Array:
        """Tokens a second [A] of each request; 0 for drafters that cannot be asked."""
        tokens, seconds = self._steps(accepted, seconds)
        return np.where([arm.drafter in context.drafters for arm in self._arms], tokens / seconds, 0.0)

    def _steps(self, accepted: Array, seconds: Array) -> tuple[Array, Array]:
        """Tokens of each request, and seconds, of a step of each arm [A]: where n-grams find no draft, the step is a plain one."""
        found = np.where(self._ngram, self._found, 1.0)
        return 1 + found * accepted, found * seconds + (1 - found) * seconds[self._index[OFF]]

    def _seconds(self, context: Context) -> Array:
        return np.exp(self._log_predicted(context) + self._times.corrections(context.batch.bit_length()))

    def _log_predicted(self, context: Context) -> Array:
        """Log seconds of each arm [A] before correction."""
        return self._look_up(context.batch, int(context.length) // LENGTHS)

    def _log_costs(self, batch: int, lengths: int) -> Array:
        context = Context(batch, (lengths + 0.5) * LENGTHS)
        return np.log([max(self.predicted(arm, context), 1e-9) for arm in self._arms])

    def _learn(self) -> None:
        run = self._run
        self._run = ArmRun(run.arm, run.bucket)
        if not run.steps:
            return
        self._counts.add(1 << (run.bucket - 1), self._arms[run.arm], run.accepted, run.seconds, run.steps)
        self._acceptance.record(self._arms[run.arm], run.accepted)
        if run.log_ratios:
            self._times.update(run.arm, run.bucket, median_low(run.log_ratios))
        self._credit = min(self._credit + SHARE * run.steps * (1 + fmean(run.accepted)), SAVED)
