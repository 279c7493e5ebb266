"""How fast each strategy was at each batch size, and what the tuner lost by not choosing the fastest (its regret). The API calls a
strategy at a batch size an arm, as one does of bandits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from longtail.schemas.telemetry import Arm, SpeculationStep

WINDOW = 20
MEASURED_PULLS = 8
"""Pulls after which an arm's speed counts as measured."""


@dataclass
class StrategyUse:
    """Of one arm: decode steps (``pulls``), tokens that they brought all their requests, and seconds."""

    pulls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, arm: Arm, sign: int = 1) -> None:
        """With ``sign`` -1 takes it away again."""
        self.pulls += sign * arm.pulls
        self.tokens += sign * (arm.requests + arm.accepted)
        self.seconds += sign * arm.seconds

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.pulls and self.seconds > 0 else 0.0

    @property
    def milliseconds(self) -> float:
        """Of a decode step: draft passes, and one of the target."""
        return 1000 * self.seconds / self.pulls if self.pulls else 0.0


UsesByBatchSize = Mapping[int, Mapping[str, StrategyUse]]
"""By batch-size bucket, the least batch size in it, and strategy."""


@dataclass(frozen=True)
class Regret:
    """Of a step's ``seconds`` of decoding, those that were ``lost``."""

    step: int
    lost: float
    seconds: float


def strategy_uses(steps: Iterable[SpeculationStep]) -> UsesByBatchSize:
    """All arms of ``steps``."""
    uses: dict[int, dict[str, StrategyUse]] = defaultdict(lambda: defaultdict(StrategyUse))
    for arm in (arm for step in steps for arm in step.arms):
        uses[arm.bucket][arm.strategy].add(arm)
    return uses


def fastest(uses: Mapping[str, StrategyUse]) -> str | None:
    """The strategy of most tokens per second in a bucket, among those that are measured."""
    return max((name for name, use in uses.items() if use.pulls >= MEASURED_PULLS), key=lambda name: uses[name].rate, default=None)


def regret(steps: Sequence[SpeculationStep], window: int = WINDOW) -> list[Regret]:
    """What each step lost by not using the best measured arm of each bucket throughout.

    Arms are measured over the ``window`` steps that end with the step in question. One that made r tokens per second, where the best of
    its bucket made R, loses (1 - r / R) of its seconds in the step. Trials, without which nothing would be known, are losses, too.
    """
    uses: dict[int, dict[str, StrategyUse]] = defaultdict(lambda: defaultdict(StrategyUse))
    found = []
    for index, step in enumerate(steps):
        for arm in step.arms:
            uses[arm.bucket][arm.strategy].add(arm)
        for arm in steps[index - window].arms if index >= window else ():
            uses[arm.bucket][arm.strategy].add(arm, -1)
        highest = {bucket: uses[bucket][name].rate for bucket in uses if (name := fastest(uses[bucket])) is not None}
        lost = sum(_lost(arm, uses[arm.bucket][arm.strategy].rate, highest.get(arm.bucket, 0.0)) for arm in step.arms)
        found.append(Regret(step.step, lost, sum(arm.seconds for arm in step.arms)))
    return found


def _lost(arm: Arm, rate: float, highest: float) -> float:
    return arm.seconds * max(0.0, 1 - rate / highest) if highest else 0.0


def batch_size_names(buckets: Iterable[int]) -> dict[int, str]:
    """``{1: "1 to 2", 3: "3 to 7", 8: "8 and more"}``."""
    ordered = sorted(buckets)
    names = {low: f"{low}" if high == low + 1 else f"{low} to {high - 1}" for low, high in pairwise(ordered)}
    return names | {low: f"{low} and more" for low in ordered[-1:]}
