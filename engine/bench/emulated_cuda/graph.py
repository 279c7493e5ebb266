"""CUDA graphs of the emulated device: what was launched while one was captured, which a replay does again on the same memory."""

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_leaves

from engine.bench.emulated_cuda.faults import StaleGraphError
from engine.bench.emulated_cuda.memory import Block, DeviceTensor


class Operation(NamedTuple):
    """``work`` is to be done again, into ``outputs``; ``description`` tells it from others."""

    work: Callable[[], object]
    outputs: list[Any]
    description: tuple[object, ...]


class Graph:
    """``torch.cuda.CUDAGraph``, as far as the engine uses it. ``launch`` is called at each replay with what it reads and writes. What was
    allocated in the capture lives as long as the graph does; of other memory it has but the address. ``number`` tells it from others."""

    _numbers = count()

    def __init__(self, launch: Callable[["Graph"], None]) -> None:
        self._launch, self.number = launch, next(self._numbers)
        self._own: dict[Block, int] = {}
        self._others: dict[int, weakref.ref[Block]] = {}
        self._written: set[int] = set()
        self.operations: list[Operation] = []

    def allocated(self, block: Block) -> None:
        self._own[block] = len(self._own)

    def add(self, function: Any, leaves: Sequence[Any], work: Callable[[], object], outputs: object, written: Sequence[Block]) -> None:
        """``function`` of the arguments ``leaves``, which ``work`` does again."""
        for leaf in leaves:
            if isinstance(leaf, DeviceTensor) and leaf.block not in self._own:
                self._others[id(leaf.block)] = weakref.ref(leaf.block)
        self._written |= {id(block) for block in written if block not in self._own}
        self.operations.append(Operation(work, tree_leaves(outputs), (str(function), *map(self._description, leaves))))

    def _description(self, leaf: object) -> object:
        if not isinstance(leaf, DeviceTensor):
            return leaf
        block = leaf.block
        where = ("of the graph", self._own[block]) if block in self._own else ("at", id(block))
        return (*where, leaf.raw.storage_offset(), tuple(leaf.raw.stride()), tuple(leaf.raw.shape), leaf.dtype)

    @property
    def used(self) -> tuple[list[Block], list[Block]]:
        """The memory that is not its own: what it reads only, and what it writes. StaleGraphError if some of it is gone."""
        blocks = {name: block() for name, block in self._others.items()}
        if None in blocks.values():
            raise StaleGraphError("a graph is replayed on memory that has been freed since it was captured")
        there = {name: block for name, block in blocks.items() if block}
        written = [there.pop(name) for name in self._written]
        return list(there.values()), written

    def replay(self) -> None:
        self._launch(self)
        for operation in self.operations:
            for output, result in zip(operation.outputs, tree_leaves(operation.work()), strict=True):
                if isinstance(output, Tensor) and output is not result and output.data_ptr() != result.data_ptr():
                    output.copy_(result)

    def compare(self, now: "Graph") -> None:
        """StaleGraphError if ``now``, captured of what is to be done now, does anything else."""
        for place, (then, other) in enumerate(zip(self.operations, now.operations, strict=False)):
            if then.description != other.description:
                raise StaleGraphError(f"operation {place} of a graph was captured as {then.description} and is {other.description} now")
        if len(self.operations) != len(now.operations):
            raise StaleGraphError(f"a graph was captured with {len(self.operations)} operations, there are {len(now.operations)} now")
