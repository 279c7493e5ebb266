"""How many tokens of each suffix draft a step should verify: as many as bring the most tokens a second."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import zip_longest

from engine.speculation.strategy import Context, Strategy

PADDED = 0.65
"""Share of what a wider step costs more that requests with shorter drafts cost as well: attention is padded to the longest draft, the
rest of the model leaves out what is not there. Measured with `small`: 0.4 for 32 requests of 200 tokens, 0.65 for 8 of 600, 0.7 to 1
for 4 of 300."""
LENGTHS = 128
"""Costs are looked up for lengths in steps of so many tokens."""


class DraftLengthChooser:
    def __init__(self, seconds: Callable[[Strategy, Context], float]) -> None:
        """``seconds(strategy, context)`` is the time of a step in which all drafts are as long as ``strategy`` says."""

        @lru_cache(1024)
        def cost(batch: int, lengths: int, width: int) -> float:
            return seconds(Strategy("ngram", width, 1, width), Context(batch, (lengths + 0.5) * LENGTHS))

        self._cost = cost

    def best(self, chances: Sequence[Sequence[float]], context: Context) -> int:
        """Of drafts whose tokens are accepted with these ``chances``, all before them included: the first so many tokens."""
        batch, lengths = len(chances), int(context.length) // LENGTHS
        tokens, rows, chosen = float(batch), 0, 0
        most = tokens / self._cost(batch, lengths, 0)
        for width, column in enumerate(zip_longest(*filter(None, chances), fillvalue=0.0), 1):
            tokens += sum(column)
            rows += len(column) - column.count(0.0)
            wide = self._cost(batch, lengths, width)
            rate = tokens / (PADDED * wide + (1 - PADDED) * self._between(batch, lengths, rows / batch))
            if rate > most:
                most, chosen = rate, width
        return chosen

    def _between(self, batch: int, lengths: int, width: float) -> float:
        low = int(width)
        cost = self._cost(batch, lengths, low)
        return cost + (width - low) * (self._cost(batch, lengths, low + 1) - cost) if width > low else cost
