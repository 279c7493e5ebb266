"""How many tokens a running response still needs, judged by responses that are finished."""

from bisect import bisect_right
from collections import deque
from typing import Any

import numpy as np

STRANGERS = 4.0  # history, however long, counts like less than this many siblings: they answer other prompts


class RemainingLengthPredictor:
    """Siblings are the finished responses of the same group; history holds the newest ``memory`` lengths of earlier RL steps."""

    def __init__(self, memory: int = 4096) -> None:
        self._siblings: dict[int, list[int]] = {}
        self._history: deque[int] = deque(maxlen=memory)
        self._index()

    def finished(self, group: int, length: int) -> None:
        """A response of ``group`` ended with ``length`` tokens."""
        self._siblings.setdefault(group, []).append(length)

    def new_step(self) -> None:
        """An RL step begins: groups are numbered anew, and what was finished becomes history."""
        for lengths in self._siblings.values():
            self._history.extend(lengths)
        self._siblings = {}
        self._index()

    def remaining(self, group: int, length: int, limit: int) -> float:
        """Mean of L - ``length`` over finished lengths L above ``length``; at least 1 and at most ``limit - length``.

        n lengths of history weigh as much together as 4 n / (n + 4) siblings. Without any such L it is ``limit - length``.
        """
        siblings = [finished for finished in self._siblings.get(group, ()) if finished > length]
        first = bisect_right(self._sorted, length)
        strangers = len(self._sorted) - first
        weight = STRANGERS / (strangers + STRANGERS)
        evidence = len(siblings) + weight * strangers
        if not evidence:
            return max(1.0, limit - length)
        mean = (sum(siblings) + weight * self._sums[first]) / evidence
        return max(1.0, min(mean, limit) - length)

    def outlook(self, length: float, limit: int) -> float:
        """Tokens that responses of ``length`` tokens still need on average, by history alone; at least 1.

        Who has outlived all that is known may do so for long: at least a quarter of ``length``, if the limit leaves so much."""
        first = bisect_right(self._sorted, length)
        strangers = len(self._sorted) - first
        predicted = min(self._sums[first] / strangers, limit) - length if strangers else limit - length
        return max(1.0, predicted, min(length / 4, limit - length))

    def state(self) -> dict[str, Any]:
        """For a checkpoint; plain JSON values."""
        return {"history": list(self._history), "siblings": [[group, list(lengths)] for group, lengths in self._siblings.items()]}

    def load_state(self, state: dict[str, Any]) -> None:
        self._history = deque(state["history"], maxlen=self._history.maxlen)
        self._siblings = {group: list(lengths) for group, lengths in state["siblings"]}
        self._index()

    def _index(self) -> None:
        """``_sums[i]`` is the sum of ``_sorted[i:]``; there is a last one for nothing."""
        lengths = np.sort(np.array(self._history, np.int64))
        # First what ``_sorted`` leads to: another thread may ask meanwhile.
        self._sums: list[int] = [*lengths[::-1].cumsum()[::-1].tolist(), 0]
        self._sorted: list[int] = lengths.tolist()
