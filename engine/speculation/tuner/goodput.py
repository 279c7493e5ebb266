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
from engine.speculation.tuner.cost_table import CostTable, assumed_catch_up, assumed_seconds, draft_levels
from engine.speculation.tuner.exploration import TRIAL, ArmChoice, Exploration
from engine.speculation.tuner.step_time_correction import Array, StepTimeCorrection
from engine.speculation.tuner.straggler_delay import straggler_delay

MEASURED, ASSUMED = 0.15, 0.3
"""Standard deviation of the log error of a cost table, and of the guess without one."""
LEAST_GAIN = math.log(1.05)
"""What drafting must promise over plain decoding, for what is believed of it is never exact."""
LAST = 1.0
"""Steps of drafting that bring a request nothing: the last one goes beyond its end, and not all requests of a batch end at once."""
WORTH_TRYING, WORTH_LOSING = 0.45, 0.05
"""Shares of what is still to be generated that a trial may take, and that it may be expected to lose: what it teaches is for the rest."""
PATIENT = 2
"""Intervals that a decision holds for once it was confirmed after the first."""
LENGTHS, EXACT, LOOKED_UP = 128, 8, 1024
"""Costs are looked up for mean lengths in steps of so many tokens, for batches of up to ``EXACT`` requests and multiples of that, and
so many of them are remembered."""


@dataclass
class ArmRun:
    """Steps of one arm at one batch bucket that nothing was learnt from yet."""

    arm: int
    bucket: int
    context: Context
    accepted: list[int] = field(default_factory=list)
    timed: list[tuple[Context, float]] = field(default_factory=list)
    steps: int = 0
    catch_up: float = 0.0


class GoodputTuner:
    """Chooses argmax of batch * (1 + expected accepted) / seconds; plain decoding is one more arm.

    AcceptanceRates is pooled over batch sizes. Seconds are those of the cost table, or a guess, times a correction learnt live. A decision
    holds for ``interval`` steps at one power-of-two bucket of batch sizes, and for longer once it was confirmed. Now and then an arm
    that is not the best is tried: with the probability that it is better, never if that is implausible, and only while trials have
    not lost more than their allowance.
    A drafter that was given up is tried again at new weights, and rarely in between.

    ``predicted(strategy, context)`` gives the seconds of a step before correction, of any strategy.
    """

    _decisions: dict[int, ArmChoice]
    _run: ArmRun

    def __init__(self, strategies: Sequence[Strategy], config: GoodputConfig, rng: random.Random, costs: CostTable | None) -> None:
        self._arms = list(dict.fromkeys((OFF, *strategies)))
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._interval = config.interval
        self._learned = np.array([arm.drafter == "eagle" for arm in self._arms])
        self._drafting = np.array([arm != OFF for arm in self._arms])
        self._acceptance = AcceptanceRates(self._arms, config)
        self._most = np.log1p([draft_levels(arm) for arm in self._arms])
        self._exploration = Exploration(self._arms, rng)
        self._counts = ArmCounts()
        self._versions: tuple[int, int] | None = None
        self._predict(costs)
        self._restart()

    def take_costs(self, costs: CostTable) -> None:
        """Those of a drafter of another size: how far the old ones were off is forgotten."""
        self._learn()
        self._predict(costs)
        self._restart()

    def _predict(self, costs: CostTable | None) -> None:
        self.predicted: Callable[[Strategy, Context], float] = costs.seconds if costs else assumed_seconds
        self._catch_up: Callable[[Context], float] = costs.catch_up if costs else assumed_catch_up
        self._correction = StepTimeCorrection([str(arm) for arm in self._arms], MEASURED if costs else ASSUMED)
        self._look_up = lru_cache(LOOKED_UP)(self._log_costs)

    def select(self, context: Context) -> Strategy:
        bucket = context.batch.bit_length()
        decision = self._decisions.get(bucket)
        if decision is None or decision.left <= 0 or not self._holds(decision, context):
            self._learn()
            self._notice_versions(context)
            decision = self._decisions[bucket] = self._decide(context, decision)
        decision.left -= 1
        return self._arms[decision.arm]

    def going_on(self, context: Context) -> Strategy | None:
        decision = self._decisions.get(context.batch.bit_length())
        return self._arms[decision.arm] if decision and decision.left > 0 and self._holds(decision, context) else None

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        """Only notes the step: it is learnt from together with the next ones. ``strategy`` may be another than was selected, if there
        was nothing to draft."""
        bucket, arm = context.batch.bit_length(), self._index[strategy]
        decision, run = self._decisions.get(bucket), self._run
        if decision and decision.arm != arm:
            self._exploration.asked(decision.arm)
        caught_up = run.arm == arm
        if not caught_up or run.bucket != bucket or run.steps >= PATIENT * self._interval:
            self._learn()
            run = self._run = ArmRun(arm, bucket, context)
        run.context = context
        run.accepted.extend(accepted)
        run.steps += 1
        if caught_up:
            run.timed.append((context, elapsed))
        else:
            run.catch_up = elapsed

    def expected(self, strategy: Strategy) -> float:
        """Mean accepted tokens of a draft, by what was learnt so far."""
        return self._acceptance.expected(strategy)

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """A decode step's time, corrected by what was learnt so far."""
        arm = self._index[strategy]
        correction, _ = self._correction.belief(context.batch.bit_length())
        return math.exp(self._log_predicted(context)[arm] + correction[arm])

    def best(self, context: Context) -> Strategy:
        """The arm of highest mean value; explores nothing, changes nothing."""
        tokens, seconds, scatter, _ = self._belief(context)
        score = self._score(context, tokens, seconds, self._late(context, seconds), scatter)
        return self._arms[max(self._eligible(context), key=score.__getitem__)]

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

    def _holds(self, decision: ArmChoice, context: Context) -> bool:
        return decision.suits(context) and self._arms[decision.arm].drafter in context.drafters

    def _restart(self) -> None:
        self._decisions = {}
        self._run = ArmRun(-1, 0, Context(1))

    def _decide(self, context: Context, last: ArmChoice | None) -> ArmChoice:
        tokens, seconds, scatter, covariance = self._belief(context)
        late, eligible = self._late(context, seconds), self._eligible(context)
        score = self._score(context, tokens, seconds, late, scatter)
        potential = self._score(context, self._most, seconds, late, np.zeros(len(self._arms)))
        best = max(eligible, key=score.__getitem__)
        delays = straggler_delay(context, np.full(len(self._arms), TRIAL), scatter)
        losses = TRIAL * (np.exp(score[best] + seconds) - np.exp(tokens)) + late * np.exp(score[best]) + delays
        pays = (TRIAL * np.exp(tokens) <= WORTH_TRYING * context.horizon) & (losses <= WORTH_LOSING * context.horizon)
        eligible = [arm for arm in eligible if pays[arm] or arm in (best, self._index[OFF])]
        chosen = self._exploration.choose(eligible, score, losses, potential, covariance)
        if chosen != best:
            self._exploration.charge(float(delays[chosen]))
            return ArmChoice(chosen, TRIAL, context, math.exp(tokens[best] - seconds[best]))
        return ArmChoice(best, self._held(best, context, last), context)

    def _held(self, best: int, context: Context, last: ArmChoice | None) -> int:
        """Steps that the choice of ``best`` holds for: few at first."""
        if last is None or last.arm != best or not last.suits(context):
            return TRIAL
        return PATIENT * self._interval if last.steps >= self._interval else self._interval

    def _belief(self, context: Context) -> tuple[Array, Array, Array, Array]:
        """Of all arms: log tokens [A] that a step brings each request, its log seconds [A], the variance [A] of its tokens from draft to
        draft, and the covariance [A, A] of the difference of the logs."""
        expected, scatter, of_tokens = self._acceptance.belief()
        correction, of_seconds = self._correction.belief(context.batch.bit_length())
        return np.log1p(expected), self._log_predicted(context) + correction, scatter, of_tokens + of_seconds

    def _late(self, context: Context, seconds: Array) -> Array:
        """Seconds [A] in which the drafter catches up, before it can draft."""
        if not context.behind:
            return np.zeros(len(self._arms))
        slower = np.exp(seconds - self._log_predicted(context))
        late: Array = np.where(self._learned, slower * self._catch_up(context), 0.0)
        return late

    def _score(self, context: Context, tokens: Array, seconds: Array, late: Array, scatter: Array) -> Array:
        """Log tokens a second [A] up to the horizon: steps that bring ``tokens`` (log), and what drafting costs once."""
        gain = np.exp(tokens)
        once = (np.where(self._drafting, LAST, 0.0) + late * np.exp(-seconds)) * gain
        score: Array = tokens - seconds - np.log1p((once + straggler_delay(context, context.horizon / gain, scatter)) / context.horizon)
        score[self._index[OFF]] += LEAST_GAIN
        return score

    def _eligible(self, context: Context) -> list[int]:
        return [index for index, arm in enumerate(self._arms) if arm.drafter in context.drafters]

    def _log_predicted(self, context: Context) -> list[float]:
        """Log seconds of each arm before correction."""
        batch = context.batch if context.batch < EXACT else context.batch // EXACT * EXACT
        return self._look_up(batch, int(context.length) // LENGTHS)

    def _log_costs(self, batch: int, lengths: int) -> list[float]:
        context = Context(batch, (lengths + 0.5) * LENGTHS)
        return [math.log(max(self.predicted(arm, context), 1e-9)) for arm in self._arms]

    def _notice_versions(self, context: Context) -> None:
        versions = (context.target_version, context.drafter_version)
        if self._versions not in (None, versions):
            self._acceptance.widen()
            self._exploration.renew()
        self._versions = versions

    def _learn(self) -> None:
        run = self._run
        self._run = ArmRun(run.arm, run.bucket, run.context)
        if not run.steps:
            return
        strategy, seconds = self._arms[run.arm], [elapsed for _, elapsed in run.timed]
        self._counts.add(1 << (run.bucket - 1), strategy, run.accepted, run.catch_up + sum(seconds), run.steps)
        self._acceptance.record(strategy, run.accepted, run.steps)
        if seconds:
            predicted = [self._log_predicted(context)[run.arm] for context, _ in run.timed]
            log_ratios = [math.log(max(elapsed, 1e-9)) - guess for elapsed, guess in zip(seconds, predicted, strict=True)]
            self._correction.update(run.arm, run.bucket, median_low(log_ratios), len(log_ratios))
        tokens = run.steps * (1 + sum(run.accepted) / max(len(run.accepted), 1))
        self._exploration.note(run.arm, run.steps, tokens)
        decision = self._decisions.get(run.bucket)
        if decision and decision.price and decision.arm == run.arm:
            step = self.seconds(strategy, run.context)
            self._exploration.charge((min(run.catch_up, 3 * step) + len(run.timed) * step) * decision.price - tokens)
