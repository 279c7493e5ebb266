"""What it costs to switch speculation on in mid-rollout: the drafter has to catch up with all that was decoded plainly."""

from collections.abc import Sequence
from statistics import median

from engine.bench.testbed import Bed, fixed, full_batch_rate
from engine.rollout.interface import Sampling
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.fixed import FixedTuner

PLAIN_STEPS = 160
SHAPE = Strategy("eagle", 3, 1, 3)


class Late(FixedTuner):
    """A tuner that speculates after ``PLAIN_STEPS`` plain steps."""

    def __init__(self) -> None:
        super().__init__(SHAPE)
        self.seconds: list[tuple[Strategy, float]] = []

    def select(self, context: Context) -> Strategy:
        return super().select(context) if len(self.seconds) >= PLAIN_STEPS else OFF

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:  # noqa: ARG002
        self.seconds.append((strategy, elapsed))


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
