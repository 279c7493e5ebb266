"""What it costs to switch speculation on in mid-rollout: the drafter has to catch up with all that was decoded plainly."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from engine.bench.bed import Bed, fixed, full_batch_rate
from engine.events import ArmStatistics
from engine.rollout.interface import Sampling
from engine.speculation.strategy import OFF, Context, Strategy

PLAIN_STEPS = 160
SHAPE = Strategy("eagle", 3, 1, 3)


class Late:
    """A tuner that speculates after ``PLAIN_STEPS`` plain steps."""

    def __init__(self) -> None:
        self.seconds: list[tuple[Strategy, float]] = []

    def select(self, context: Context) -> Strategy:
        return SHAPE if len(self.seconds) >= PLAIN_STEPS and "eagle" in context.drafters else OFF

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:  # noqa: ARG002
        self.seconds.append((strategy, elapsed))

    def take_arms(self) -> list[ArmStatistics]:
        return []

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass


def switch_on(bed: Bed, size: int) -> float:
    """What the first speculative step takes beyond a usual one, in plain steps, ``PLAIN_STEPS`` tokens into the responses."""
    engine = bed.engine(fixed(SHAPE.depth), size, endless=True)
    ratios = []
    for seed in range(3):
        tuner = Late()
        assert engine.speculator
        engine.speculator.tuner = tuner
        full_batch_rate(engine, bed.requests(size, seed=seed), Sampling(max_new_tokens=PLAIN_STEPS + 60, seed=seed))
        plain = median(seconds for strategy, seconds in tuner.seconds if strategy == OFF)
        first, *others = [seconds for strategy, seconds in tuner.seconds if strategy == SHAPE]
        ratios.append((first - median(others)) / plain)
    return round(median(ratios), 2)
