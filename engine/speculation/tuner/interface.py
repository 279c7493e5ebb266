"""The tuner chooses each decode step's strategy and learns from what the step brought."""

from collections.abc import Sequence
from typing import Any, Protocol

from engine.events import ArmStatistics
from engine.speculation.strategy import Context, Strategy


class Tuner(Protocol):
    def select(self, context: Context) -> Strategy:
        """The strategy for the next decode step; its drafter is one of ``context.drafters``."""
        ...

    def going_on(self, context: Context) -> Strategy | None:
        """What the next ``select`` answers, if that does not depend on steps that are not recorded yet; else None. Changes nothing."""
        ...

    def record(self, strategy: Strategy, context: Context, accepted: Sequence[int], elapsed: float) -> None:
        """A step took ``elapsed`` seconds and brought request i ``accepted[i]`` tokens besides the target's own one. Of those that
        ran in it and had ended before nothing is told."""
        ...

    def take_arms(self) -> list[ArmStatistics]:
        """Use of each strategy since the last call; starts new counts."""
        ...

    def state(self) -> dict[str, Any]:
        """What was learnt, for a checkpoint; plain JSON values."""
        ...

    def load_state(self, state: dict[str, Any]) -> None: ...
