"""One strategy always; for measurements."""

from collections.abc import Sequence
from typing import Any

from engine.events import ArmStatistics
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.arm_counts import ArmCounts


class FixedTuner:
    """Learns nothing. Its one bucket holds every batch size."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._counts = ArmCounts()

    def select(self, context: Context) -> Strategy:
        return self._strategy if self._strategy.drafter in context.drafters else OFF

    def going_on(self, context: Context) -> Strategy | None:
        return self.select(context)

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:  # noqa: ARG002
        self._counts.add(1, strategy, accepted, elapsed)

    def take_arms(self) -> list[ArmStatistics]:
        return self._counts.take()

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        pass
