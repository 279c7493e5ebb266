"""Graphs that are compared, at each replay, with what is to be done then: numbers and memory of the capture must still be those of now."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.graph import Graph
from engine.rollout.native.graphs.pool import Function, GraphPool


class CheckedPool(GraphPool):
    """Its functions run twice, which they must stand."""

    def run(self, key: Hashable | None, function: Function, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        outputs = super().run(key, function, inputs)
        if key is not None and (recording := self._recordings.get(key)):
            then: Graph = recording.replay.__self__  # type: ignore[attr-defined]
            now = torch.cuda.CUDAGraph()
            with torch.cuda.graph(now):
                function(recording.inputs)
            then.compare(now)  # type: ignore[arg-type]
        return outputs


@contextmanager
def emulated() -> Iterator[EmulatedCuda]:
    """A device on which the engine's graphs are checked."""
    with pytest.MonkeyPatch.context() as patched, EmulatedCuda() as device:
        patched.setattr("engine.rollout.native.forward_passes.GraphPool", CheckedPool)
        yield device
