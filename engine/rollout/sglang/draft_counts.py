"""What decode steps drafted and kept."""

from collections.abc import Sequence
from typing import Any


class DraftCounts:
    """Tokens that are drafted behind an end token count, too."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self._numbers = {"decode_steps": 0, "plain_tokens": 0, "speculative_requests": 0, "speculative_tokens": 0}
        self._positions: tuple[list[int], list[int]] = ([], [])

    def add(self, drafted: int, accepted: Sequence[int]) -> None:
        """A step with ``drafted`` tokens for each request, of which request i kept ``accepted[i]``."""
        self._numbers["decode_steps"] += 1
        if drafted:
            self._numbers["speculative_requests"] += len(accepted)
            self._numbers["speculative_tokens"] += sum(accepted) + len(accepted)
            for counts in self._positions:
                counts.extend([0] * (drafted - len(counts)))
            for position in range(drafted):
                self._positions[0][position] += len(accepted)
                self._positions[1][position] += sum(drafts > position for drafts in accepted)
        else:
            self._numbers["plain_tokens"] += len(accepted)

    def take(self) -> dict[str, Any]:
        """By the names of RolloutStatistics, and ``plain_tokens``; starts new ones."""
        taken = self._numbers | {"drafted_by_position": self._positions[0], "accepted_by_position": self._positions[1]}
        self._restart()
        return taken
