"""The tuner chooses each decode step's strategy and learns from what the step brought."""

import random
from collections.abc import Sequence
from typing import Any, Protocol

from engine.config import BegConfig, SpeculationConfig
from engine.events import ArmStatistics
from engine.speculation.beg import BegTuner
from engine.speculation.fixed import FixedTuner
from engine.speculation.strategy import Strategy


class Tuner(Protocol):
    def select(self, batch: int) -> Strategy:
        """The strategy for a decode step of ``batch`` requests."""
        ...

    def record(self, strategy: Strategy, batch: int, accepted: Sequence[int], elapsed: float) -> None:
        """A step took ``elapsed`` seconds and brought request i ``accepted[i]`` tokens besides the target's own one."""
        ...

    def take_arms(self) -> list[ArmStatistics]:
        """Use of each strategy since the last call; starts new counts."""
        ...

    def state(self) -> dict[str, Any]:
        """What was learnt, for a checkpoint; plain JSON values."""
        ...

    def load_state(self, state: dict[str, Any]) -> None: ...


def build_tuner(config: SpeculationConfig, seed: int) -> Tuner:
    """The configured tuner; ``seed`` makes its exploration reproducible."""
    strategies = [Strategy.eagle(strategy) for strategy in config.strategies]
    if isinstance(config.tuner, BegConfig):
        return BegTuner(strategies, config.tuner, random.Random(seed))
    return FixedTuner(strategies[0])
