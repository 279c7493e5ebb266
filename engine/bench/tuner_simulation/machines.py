"""What decode steps cost on two kinds of machines, and how evenly they take their time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.speculation.tuner.cost_table import CostTable, Grid

BATCHES, WIDTHS, LENGTHS = (1, 4, 16, 64, 256), (1, 2, 4, 8, 16, 32), (64, 1024)


def table(target: Sequence[float], draft: Sequence[float]) -> CostTable:
    """Each: milliseconds of a pass over nothing, of each request, of each row, and of each 1,000 tokens that a row attends to."""
    return CostTable(_grid(*target), _grid(*draft))


def _grid(fixed: float, request: float, row: float, attended: float) -> Grid:
    def milliseconds(batch: int, width: int, length: int) -> float:
        return fixed + batch * (request + width * (row + attended * length / 1000))

    seconds = [[[milliseconds(batch, width, length) / 1000 for length in LENGTHS] for width in WIDTHS] for batch in BATCHES]
    return Grid(BATCHES, WIDTHS, LENGTHS, seconds)


CPU = table((11.0, 0.7, 0.6, 0.1), (0.6, 0.0, 0.12, 0.02))
"""The model ``small`` on one thread, as ``bench rollout`` found it: plain decoding of 75 to 655 tokens a second at 1 to 64 requests, drafts
that make it three times as fast alone and a fifth faster at 32."""
GPU = table((6.5, 0.0, 0.03, 0.02), (0.35, 0.0, 0.002, 0.002))
"""One GPU and a model of 7 B: rows are nearly free, so that trees pay."""


@dataclass(frozen=True)
class Pace:
    """How steps depart from their costs: ``noise`` is the standard deviation of the log of a step's time; a share ``hiccups`` of steps
    takes ten times as long; for ``spell`` steps in turns the machine is as fast as it can be, and half as fast."""

    noise: float = 0.05
    hiccups: float = 0.0
    spell: int = 0

    def factors(self, steps: int, rng: np.random.Generator) -> np.ndarray:
        factors = np.exp(self.noise * rng.standard_normal(steps)) * np.where(rng.random(steps) < self.hiccups, 10.0, 1.0)
        if self.spell:
            factors *= 1.0 + (np.arange(steps) // self.spell) % 2
        found: np.ndarray = factors
        return found
