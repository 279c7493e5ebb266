"""The default tuner: most tokens per second, from measured step times and acceptance by draft position."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median_low
from typing import Any

import numpy as np

from engine.config import GoodputConfig
from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.acceptance_rates import AcceptanceRates
from engine.speculation.tuner.arm_counts import ArmCounts
from engine.speculation.tuner.cost_table import CostTable, assumed_catch_up, assumed_seconds
from engine.speculation.tuner.exploration import TRIAL, ArmChoice, Exploration
from engine.speculation.tuner.step_time_correction import Array, StepTimeCorrection

MEASURED, ASSUMED = 0.15, 0.3
"""Standard deviation of the log error of a cost table, and of the guess without one."""
LAST = 2.0
"""Steps of drafting that bring a request nothing: the last one goes beyond its end, and a batch waits for its least lucky request."""
LENGTHS, EXACT, LOOKED_UP = 128, 8, 1024
"""Costs are looked up for mean lengths in steps of so many tokens, for batches of up to ``EXACT`` requests and multiples of that, and
so many of them are remembered."""


@dataclass
class ArmRun:
    """Steps of one arm at one batch bucket that nothing was learnt from yet."""

    arm: int
    bucket: int
    accepted: list[int] = field(default_factory=list)
    log_ratios: list[float] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0


class GoodputTuner:
    """Chooses argmax of batch * (1 + expected accepted) / seconds; plain decoding is one more arm.

    AcceptanceRates is pooled over batch sizes. Seconds are those of the cost table, or a guess, times a correction learnt live. A decision
    holds for ``interval`` steps at one power-of-two bucket of batch sizes, a new one for fewer. exploration.py tries the other arms.

    ``predicted(strategy, context)`` gives the seconds of a step before correction, of any strategy.
    """

    def __init__(self, strategies: Sequence[Strategy], config: GoodputConfig, rng: random.Random, costs: CostTable | None) -> None:
        self._arms = list(dict.fromkeys((OFF, *strategies)))
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._interval = config.interval
        self._learned = np.array([arm.drafter == "eagle" for arm in self._arms])
        self._drafting = np.array([arm != OFF for arm in self._arms])
        self._acceptance = AcceptanceRates(self._arms, config)
        self._exploration = Exploration(self._arms, rng)
        self._counts = ArmCounts()
        self._decisions, self._run = dict[int, ArmChoice](), ArmRun(-1, 0)
        self._versions: tuple[int, int] | None = None
        self._predict(costs)

    def take_costs(self, costs: CostTable) -> None:
        """Those of a drafter of another size: how far the old ones were off is forgotten."""
        self._learn()
        self._predict(costs)

    def _predict(self, costs: CostTable | None) -> None:
        self.predicted: Callable[[Strategy, Context], float] = costs.seconds if costs else assumed_seconds
        self._catch_up: Callable[[Context], float] = costs.catch_up if costs else assumed_catch_up
        self._correction = StepTimeCorrection([str(arm) for arm in self._arms], MEASURED if costs else ASSUMED)
        self._look_up = lru_cache(LOOKED_UP)(self._log_costs)
        self._restart()

    def select(self, context: Context) -> Strategy:
        decision = self._holding(context)
        if decision is None:
            self._learn()
            if self._versions not in (None, context.versions):
                self._acceptance.widen()
            self._versions = context.versions
            bucket = context.batch.bit_length()
            decision = self._decisions[bucket] = self._decide(context, self._decisions.get(bucket))
        decision.left -= 1
        return self._arms[decision.arm]

    def going_on(self, context: Context) -> Strategy | None:
        decision = self._holding(context)
        return self._arms[decision.arm] if decision else None

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        """Only notes the step: it is learnt from together with the next ones. ``strategy`` may be another than was selected, if there
        was nothing to draft."""
        bucket, arm, run = context.batch.bit_length(), self._index[strategy], self._run
        decision = self._decisions.get(bucket)
        asked = decision is not None and "ngram" in context.drafters and self._arms[decision.arm].drafter == "ngram"
        if decision and asked and strategy == OFF:  # nothing was found: a draft that ends early
            self._acceptance.record(self._arms[decision.arm], [0] * len(accepted), 1)
            decision.left = 0
        caught_up = run.arm == arm
        if not caught_up or run.bucket != bucket or run.steps >= self._interval:
            self._learn()
            run = self._run = ArmRun(arm, bucket)
        run.accepted.extend(accepted)
        run.steps += 1
        run.seconds += elapsed
        if caught_up:
            run.log_ratios.append(math.log(max(elapsed, 1e-9)) - self._log_predicted(context)[arm])

    def expected(self, strategy: Strategy) -> float:
        """Mean accepted tokens of a draft, by what was learnt so far."""
        return self._acceptance.expected(strategy)

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """A decode step's time, corrected by what was learnt so far."""
        arm = self._index[strategy]
        correction, _ = self._correction.belief(context.batch.bit_length())
        return math.exp(self._log_predicted(context)[arm] + correction[arm])

    def take_arms(self) -> list[ArmStatistics]:
        self._learn()
        return self._counts.take()

    def state(self) -> dict[str, Any]:
        """Ends the running decisions."""
        self._learn()
        self._restart()
        return {
            "versions": self._versions and list(self._versions),
            "exploration": self._exploration.state(),
            "acceptance": self._acceptance.state(),
            "correction": self._correction.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """What was saved of other strategies than these is left out."""
        self._versions = state["versions"] and tuple(state["versions"])
        self._exploration.load_state(state["exploration"])
        self._acceptance.load_state(state["acceptance"])
        self._correction.load_state(state["correction"])
        self._restart()

    def _holding(self, context: Context) -> ArmChoice | None:
        """The decision that holds for the next step, too."""
        decision = self._decisions.get(context.batch.bit_length())
        if decision is None or decision.left <= 0 or decision.versions != context.versions:
            return None
        return decision if self._arms[decision.arm].drafter in context.drafters else None

    def _restart(self) -> None:
        self._decisions = {}
        self._run = ArmRun(-1, 0)

    def _decide(self, context: Context, last: ArmChoice | None) -> ArmChoice:
        """The first one at a batch size is the best; then others are tried beside it. A new one holds for few steps."""
        score, covariance, seconds, late = self._belief(context)
        eligible = self._eligible(context)
        best = max(eligible, key=score.__getitem__)
        chosen = self._exploration.choose(eligible, score, covariance if last else 0 * covariance, seconds, late)
        confirmed = last is not None and last.versions == context.versions and last.arm == chosen == best
        return ArmChoice(chosen, self._interval if confirmed else TRIAL, context.versions)

    def _belief(self, context: Context) -> tuple[Array, Array, Array, Array]:
        """Of all arms: log tokens a second [A] that each request gets up to the horizon, with what drafting costs once, how certain
        they are: the covariance [A, A], log seconds [A] of a step, and the steps [A] in which the drafter catches up first."""
        expected, of_tokens = self._acceptance.belief()
        correction, of_seconds = self._correction.belief(context.batch.bit_length())
        predicted = self._log_predicted(context)
        seconds = predicted + correction
        late = self._late(context, predicted)
        once = (np.where(self._drafting, LAST, 0.0) + late) * (1 + expected)
        score: Array = np.log1p(expected) - seconds - np.log1p(once / context.horizon)
        return score, of_tokens + of_seconds, seconds, late

    def _late(self, context: Context, predicted: list[float]) -> Array:
        """Steps [A] in which the drafter catches up, before it can draft."""
        return np.where(self._learned, self._catch_up(context) * np.exp(-np.array(predicted)), 0.0)

    def _eligible(self, context: Context) -> list[int]:
        return [index for index, arm in enumerate(self._arms) if arm.drafter in context.drafters]

    def _log_predicted(self, context: Context) -> list[float]:
        """Log seconds of each arm before correction."""
        batch = context.batch if context.batch < EXACT else context.batch // EXACT * EXACT
        return self._look_up(batch, int(context.length) // LENGTHS)

    def _log_costs(self, batch: int, lengths: int) -> list[float]:
        context = Context(batch, (lengths + 0.5) * LENGTHS)
        return [math.log(max(self.predicted(arm, context), 1e-9)) for arm in self._arms]

    def _learn(self) -> None:
        run = self._run
        self._run = ArmRun(run.arm, run.bucket)
        if not run.steps:
            return
        strategy = self._arms[run.arm]
        self._counts.add(1 << (run.bucket - 1), strategy, run.accepted, run.seconds, run.steps)
        self._acceptance.record(strategy, run.accepted, run.steps)
        self._exploration.note(run.steps)
        if run.log_ratios:
            self._correction.update(run.arm, run.bucket, median_low(run.log_ratios), len(run.log_ratios))
