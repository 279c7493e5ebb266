"""Counts of what each arm was used for, between two reports."""

from collections.abc import Sequence

from engine.events import ArmStatistics
from engine.speculation.strategy import Strategy


class ArmCounts:
    """``bucket`` in the report is the smallest batch size of the bucket."""

    def __init__(self) -> None:
        self._arms: dict[tuple[int, Strategy], list[float]] = {}

    def add(self, bucket: int, strategy: Strategy, accepted: Sequence[int], elapsed: float, steps: int = 1) -> None:
        """Decode steps, of as many requests as there are numbers ``accepted``."""
        counts = self._arms.setdefault((bucket, strategy), [0, 0, 0, 0.0])
        counts[0] += steps
        counts[1] += len(accepted)
        counts[2] += sum(accepted)
        counts[3] += elapsed

    def take(self) -> list[ArmStatistics]:
        """The counts by bucket and strategy; starts new ones."""
        arms = [
            ArmStatistics(
                bucket=bucket, strategy=str(strategy), pulls=int(pulls), requests=int(requests), accepted=int(drafts), seconds=seconds
            )
            for (bucket, strategy), (pulls, requests, drafts, seconds) in self._arms.items()
        ]
        self._arms = {}
        return sorted(arms, key=lambda arm: (arm.bucket, arm.strategy))
