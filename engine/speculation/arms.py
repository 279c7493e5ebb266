"""Counts of what each arm was used for, between two reports."""

from collections.abc import Sequence

from engine.events import ArmStatistics
from engine.speculation.strategy import Strategy


class ArmCounts:
    """``bucket`` in the report is the smallest batch size of the bucket."""

    def __init__(self) -> None:
        self._arms: dict[tuple[int, str], ArmStatistics] = {}

    def add(self, bucket: int, strategy: Strategy, accepted: Sequence[int], elapsed: float) -> None:
        """One decode step of ``len(accepted)`` requests."""
        before = self._arms.get((bucket, str(strategy)))
        self._arms[bucket, str(strategy)] = ArmStatistics(
            bucket=bucket,
            strategy=str(strategy),
            pulls=1 + (before.pulls if before else 0),
            requests=len(accepted) + (before.requests if before else 0),
            accepted=sum(accepted) + (before.accepted if before else 0),
            seconds=elapsed + (before.seconds if before else 0.0),
        )

    def take(self) -> list[ArmStatistics]:
        """The counts by bucket and strategy; starts new ones."""
        arms = [self._arms[key] for key in sorted(self._arms)]
        self._arms = {}
        return arms
