"""What a decode step takes on a GPU, by roofline: weights and cache are read, rows are multiplied, layers are launched and exchanged.

It comes as the tuner's own cost table, so that a measured one can take its place.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.planner.calibration import Efficiency
from engine.planner.hardware import GIGA, TERA, Gpu
from engine.planner.memory import HALF, drafter_parameters
from engine.planner.model_shape import Shape
from engine.speculation.strategy import Context
from engine.speculation.tuner.cost_table import CATCH_UP, KEYS, CostTable, Grid

Array = NDArray[np.float64]
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
WIDTHS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129)
BRANCHES = (1, 2, 4, 8, 16)
LENGTHS = (0, 32_768)


@dataclass(frozen=True)
class Roofline:
    """A worker of ``tensor_parallel`` GPUs that holds a model of ``shape`` in bfloat16."""

    shape: Shape
    gpu: Gpu
    tensor_parallel: int
    efficiency: Efficiency

    def target(self, batch: Array, width: Array, length: Array) -> Array:
        """Seconds of a pass over ``width`` tokens of each of ``batch`` requests with ``length`` tokens before them."""
        shape = self.shape
        read = shape.parameters - (0 if shape.tied else shape.vocabulary * shape.hidden)  # of the embedding only some rows
        return self._pass(read, shape.cached, shape.layers, batch, width, length)

    def draft(self, batch: Array, width: Array, length: Array) -> Array:
        """Seconds of one drafted level of ``width`` branches: a layer, the fusion, and the head."""
        shape = self.shape
        read = drafter_parameters(shape) + shape.vocabulary * shape.hidden
        return self._pass(read, shape.cached // shape.layers, 1, batch, width, length) + self.efficiency.level

    def _pass(self, read: int, cached: int, layers: int, batch: Array, width: Array, length: Array) -> Array:
        reached, gpu, share = self.efficiency, self.gpu, self.tensor_parallel
        rows = batch * width
        attended = 2.0 * rows * length * layers * self.shape.heads * self.shape.head_size * 2
        memory = HALF * (read + cached * batch * length) / share / (gpu.bandwidth * TERA * reached.memory)
        compute = (2.0 * read * rows + attended) / share / (gpu.flops * TERA * reached.compute)
        both = (memory**reached.overlap + compute**reached.overlap) ** (1 / reached.overlap)
        return both + layers * (reached.layer + self._exchange(rows))

    def _exchange(self, rows: Array) -> Array:
        """Of a layer: two all-reduces of its output."""
        if self.tensor_parallel == 1:
            return np.zeros_like(rows)
        sent = 2 * HALF * self.shape.hidden * rows * (self.tensor_parallel - 1) / self.tensor_parallel
        return 2 * (self.efficiency.exchange + sent / (self.gpu.link * GIGA))

    def table(self) -> CostTable:
        """Of all strategies."""
        target = self.target(*np.meshgrid(*(np.array(axis, float) for axis in (BATCHES, WIDTHS, LENGTHS)), indexing="ij"))
        target[:, 1:] += self.efficiency.verify
        draft = self.draft(*np.meshgrid(*(np.array(axis, float) for axis in (BATCHES, BRANCHES, LENGTHS)), indexing="ij"))
        return CostTable(Grid(BATCHES, WIDTHS, LENGTHS, target.tolist()), Grid(BATCHES, BRANCHES, LENGTHS, draft.tolist()))

    def prefill(self, tokens: float) -> float:
        """Seconds to read ``tokens`` of prompts."""
        return 2.0 * self.shape.parameters * tokens / self.tensor_parallel / (self.gpu.flops * TERA * self.efficiency.prefill)


def catch_up(costs: CostTable, context: Context, behind: float) -> float:
    """Seconds in which the drafter takes in ``behind`` tokens of each request that it has not seen yet, beyond what a step has it take in
    anyway."""
    batch, length = context.batch, context.length
    return max(0.0, costs.draft(batch, 1 + KEYS * behind, length) - costs.draft(batch, CATCH_UP, length))
