"""Rollouts of the real speculator and its tuner on a simulated clock, by the cost table of a model on this machine.

Each strategy departs from the table by an error of its own, the machine's speed drifts, and steps have noise and hiccups. Acceptance moves
from rollout to rollout, and with every third seed the drafter is broken in one of them. N-grams do not take part: what they find depends
on texts.
"""

import math
import random
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from engine.config import SpeculationConfig
from engine.speculation.speculator import Speculator, StepPlan
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable

STEPS = 5
LIMIT, GROUP = 1024, 4
"""Tokens of the longest response, and responses of a prompt."""
AHEAD = 60
"""Positions behind the longest response that a draft may reach."""
BREAKS, BROKEN_AT, BROKEN = 3, 3, 0.12
"""With the second of so many seeds the drafter breaks; for which rollout, and at what rate it is accepted then."""
TABLE_ERROR, MACHINE_ERROR, DRIFT, NOISE = 0.12, 0.3, 0.003, 0.08
"""Standard deviations of logs of times: of a strategy, of the machine, what a step adds to that, and of a step."""
HICCUPS = 0.01
"""Share of steps that take two to six times as long."""


class Case(NamedTuple):
    """Requests at once, tokens of their responses (None: lengths differ, with a long tail), and of their prompts."""

    requests: int
    tokens: int | None = 256
    prompt: int = 60


@dataclass
class VirtualRequest:
    """A running request that ends after ``needed`` tokens. A drafted token is accepted if ``luck`` at its position is below ``rate``."""

    id: int
    group: int
    prompt: int
    needed: int
    rate: float
    luck: Any
    drafted: int = 0
    written: list[int] = field(default_factory=list)

    @property
    def generated(self) -> int:
        return len(self.written)

    @property
    def length(self) -> int:
        return self.prompt + self.generated

    def accepts(self, shape: Strategy) -> int:
        """Of a draft. Branches beside the likeliest one help, the more of them are checked."""
        share = min(1.0, shape.verify / (2.0 * shape.depth))
        rate = 1 - (1 - self.rate) ** (1 + 0.35 * math.log2(shape.top_k) * share)
        tokens = 0
        while tokens < min(shape.depth, shape.verify) and self.luck[self.generated + tokens] < rate:
            tokens += 1
        return tokens


class VirtualMachine:
    """Takes as long as ``costs`` say, but for errors that are its own. ``seed`` decides those."""

    def __init__(self, costs: CostTable, seed: int) -> None:
        self._costs, self._rng, self._seed = costs, random.Random(seed), seed
        self._speed = self._rng.gauss(0, MACHINE_ERROR)

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """Of a decode step, with what the drafter catches up with."""
        costs = self._costs
        late = costs.catch_up(context) if strategy != OFF and context.behind > strategy.depth + 1 else 0.0
        self._speed += self._rng.gauss(0, DRIFT)
        noise = random.Random(f"{self._seed} {strategy}").gauss(0, TABLE_ERROR) + self._rng.gauss(0, NOISE)
        hiccup = self._rng.uniform(2, 6) if self._rng.random() < HICCUPS else 1.0
        return hiccup * math.exp(self._speed) * (costs.seconds(strategy, context) * math.exp(noise) + late)


class Rollouts:
    """``STEPS`` of them, with new weights before each."""

    def __init__(self, costs: CostTable, seed: int, speculates: bool = True) -> None:
        config = SpeculationConfig.model_validate({"suffix": {"enabled": False}})
        self._speculator = Speculator(config, seed, costs)
        self._machine = VirtualMachine(costs, seed)
        self._rng, self._seed, self._learned = random.Random(seed), seed, speculates
        self._breaks = seed % BREAKS == 1

    def seconds(self, case: Case, rate: float) -> float:
        """``rate`` is the first; from rollout to rollout it changes a little."""
        total = 0.0
        for step in range(STEPS):
            rate = min(0.9, max(0.05, rate + self._rng.gauss(0, 0.03)))
            total += self._rollout(step, self._batch(step, case, BROKEN if self._breaks and step == BROKEN_AT else rate))
        return total

    def _batch(self, step: int, case: Case, rate: float) -> list[VirtualRequest]:
        requests = range(case.requests)
        luck = np.random.default_rng((self._seed, step)).random((case.requests, LIMIT + AHEAD))
        needed = [case.tokens or int(min(LIMIT, max(24, self._rng.lognormvariate(math.log(150), 1)))) for _ in requests]
        rates = [min(0.95, max(0.03, rate + self._rng.gauss(0, 0.06))) for _ in requests]
        return [VirtualRequest(index, index // GROUP, case.prompt, needed[index], rates[index], luck[index]) for index in requests]

    def _rollout(self, step: int, batch: list[VirtualRequest]) -> float:
        self._speculator.begin(LIMIT)
        self._speculator.loaded("target", step)
        self._speculator.loaded("drafter", step)
        for request in batch:
            self._speculator.admit(request.id, [0] * request.prompt, request.written)
        total = 0.0
        while batch:
            plan = self._speculator.plan(batch, self._learned)
            total += self._step(plan, batch)
            for request in batch:
                if request.generated >= request.needed:
                    self._speculator.finish(request)
            batch = [request for request in batch if request.generated < request.needed]
        return total

    def _step(self, plan: StepPlan, batch: list[VirtualRequest]) -> float:
        shape = plan.shape or OFF
        behind = max(request.length - request.drafted for request in batch)
        context = Context(len(batch), fmean(request.length for request in batch), behind=behind)
        accepted = [request.accepts(shape) if plan.shape else 0 for request in batch]
        kept = [min(tokens + 1, request.needed - request.generated) for tokens, request in zip(accepted, batch, strict=True)]
        seconds = self._machine.seconds(shape, context)
        for request, tokens in zip(batch, kept, strict=True):
            request.written += [0] * tokens
            request.drafted = request.length if plan.shape else request.drafted
        self._speculator.record(plan, accepted, kept, seconds)
        return seconds
