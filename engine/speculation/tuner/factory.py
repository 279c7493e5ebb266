"""The configured tuner."""

import random

from engine.config import BegConfig, GoodputConfig, SpeculationConfig
from engine.speculation.strategy import Strategy
from engine.speculation.tuner.beg_bandit import BegTuner
from engine.speculation.tuner.cost_table import CostTable
from engine.speculation.tuner.fixed import FixedTuner
from engine.speculation.tuner.goodput import GoodputTuner
from engine.speculation.tuner.interface import Tuner


def build_tuner(config: SpeculationConfig, seed: int, costs: CostTable | None = None) -> Tuner:
    """``seed`` makes its exploration reproducible. Without ``costs`` the goodput tuner learns step times from live steps alone."""
    strategies = [Strategy.of(strategy) for strategy in config.strategies]
    if isinstance(config.tuner, BegConfig):
        return BegTuner(strategies, config.tuner, random.Random(seed))
    if isinstance(config.tuner, GoodputConfig):
        return GoodputTuner(strategies, config.tuner, random.Random(seed), costs)
    return FixedTuner(strategies[0])
