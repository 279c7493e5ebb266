"""A machine with published step times, on which the tuner chooses."""

from collections.abc import Callable, Sequence

import numpy as np

from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.cost_table import CostTable, Grid, draft_levels
from engine.speculation.tuner.goodput import GoodputTuner

# facts of TLT, section 5: milliseconds by batch size and drafted tokens, and the share of drafts accepted at least so far
MILLISECONDS = {
    1: (6.52, 7.37, 8.84, 10.33),
    16: (6.90, 7.85, 9.52, 11.20),
    64: (7.77, 9.66, 13.50, 16.83),
    256: (14.49, 27.14, 41.85, 57.40),
}
GOOD = (0.68, 0.39, 0.20, 0.10, 0.05)
BAD = (0.02, 0.0, 0.0, 0.0, 0.0)
BETTER = (0.9, 0.8, 0.7, 0.6, 0.5)
K1, K3, K5 = ARMS = [Strategy("eagle", depth, 1, depth) for depth in (1, 3, 5)]
K4 = Strategy("eagle", 4, 1, 4)
BEST = {1: K3, 16: K3, 64: K1, 256: OFF}
TABLE = CostTable(
    Grid(list(MILLISECONDS), (1, 2, 4, 6), (0,), [[[ms / 1000] for ms in row] for row in MILLISECONDS.values()]),
    Grid((1,), (1,), (0,), [[[0.0]]]),
)


class Machine:
    """Decodes with lognormal noise of 10 % and, in 1 % of the steps, a hiccup that takes ten times as long."""

    def __init__(self, seed: int, accepted: Sequence[float] = GOOD, noise: float = 0.1, hiccups: float = 0.01) -> None:
        self.rng = np.random.default_rng(seed)
        self.accepted, self.noise, self.hiccups = np.array(accepted), noise, hiccups
        self.steps = 0
        self.speed: Callable[[int], float] = lambda _: 1.0
        self.costs: Callable[[Strategy, Context], float] = TABLE.seconds

    def rate(self, strategy: Strategy, context: Context) -> float:
        """Mean tokens a second at normal speed."""
        rate: float = context.batch * (1 + self.accepted[: draft_levels(strategy)].sum()) / self.costs(strategy, context)
        return rate

    def best(self, context: Context) -> Strategy:
        return max((OFF, *ARMS), key=lambda arm: self.rate(arm, context))

    def step(self, tuner: GoodputTuner, context: Context) -> Strategy:
        self.steps += 1
        strategy = tuner.select(context)
        draws = self.rng.random((context.batch, 1))
        accepted = (draws < self.accepted[: draft_levels(strategy)]).sum(1).tolist()
        disturbed = np.exp(self.rng.normal(0, self.noise)) * (10 if self.rng.random() < self.hiccups else 1)
        tuner.record(strategy, context, accepted, self.costs(strategy, context) / self.speed(self.steps) * disturbed)
        return strategy
