"""Strategies at random at every decode step, on each rank others: for tests only. With a variable that asks for it."""

import os
import random
from collections.abc import Sequence

VARIABLE = "LONGTAIL_TESTS_RANDOM_STRATEGIES"


def register() -> None:
    """Called by SGLang in each of its processes, before it makes anything of ours."""
    if VARIABLE not in os.environ:
        return
    from engine.config import SpeculationConfig
    from engine.speculation import speculator
    from engine.speculation.strategy import OFF, Context, Strategy
    from engine.speculation.tuner.cost_table import CostTable
    from engine.speculation.tuner.fixed import FixedTuner

    class RandomTuner(FixedTuner):
        def __init__(self, strategies: Sequence[Strategy]) -> None:
            super().__init__(OFF)
            self._strategies, self._random = strategies, random.Random(os.getpid())

        def select(self, context: Context) -> Strategy:  # noqa: ARG002
            return self._random.choice(self._strategies)

    def build(config: SpeculationConfig, seed: int, costs: CostTable | None = None) -> RandomTuner:  # noqa: ARG001
        return RandomTuner([OFF, *map(Strategy.of, config.strategies)])

    speculator.build_tuner = build  # type: ignore[attr-defined]
