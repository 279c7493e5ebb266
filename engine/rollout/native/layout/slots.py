"""The layout of a CPU: the positions of a slot lie one after the other, so attention reads them where they are.

There the operating system does what pages of our own do on a GPU. Every slot is mapped at its longest and takes memory as it is written,
4 KiB at a time; what its request does not need any more is given back. So a slot holds the positions of its request, and no more than
``ROUNDING`` bytes besides. Pages of our own would have to be gathered by every layer at every step.
"""

import torch
from torch import Tensor

from engine.rollout.native.layout.interface import Copies
from engine.rollout.native.layout.mapped_memory import MappedMemory
from engine.rollout.native.layout.room import Unlimited

ROUNDING = 2**20
"""Bytes of a slot that are not worth to be given back: to take them again takes time, too."""


class Slots(Unlimited):
    """A Layout. Slots are an odd number of rows apart: were it a power of two, they would fall on the same lines of a processor's cache."""

    def __init__(self, slots: int, capacity: int, device: torch.device) -> None:
        self.slots, self._slot = slots, capacity | 1
        self.rows = slots * self._slot
        self._start = torch.arange(slots, device=device)[:, None] * self._slot
        self._reached = [0] * slots
        self._memory: list[MappedMemory] = []

    def zeros(self, like: Tensor, *shape: int) -> Tensor:
        if like.device.type != "cpu" or 0 in shape:
            return like.new_zeros(*shape)
        self._memory.append(MappedMemory(like.dtype, shape))
        return self._memory[-1].tensor

    def settle(self) -> None:
        pass

    def index(self, positions: Tensor, first: int) -> Tensor:
        return positions + self._start[first : first + len(positions)]

    def span(self, slot: int, length: int) -> slice:
        return slice(slot * self._slot, slot * self._slot + length)

    def grow(self, slot: int, length: int) -> None:
        self._reached[slot] = max(self._reached[slot], length)

    def share(self, source: int, target: int, length: int) -> Copies:
        self.grow(target, length)
        return Copies(self.span(source, length), self.span(target, length))

    def hand_over(self, source: int, target: int, length: int) -> Copies:
        self._keep(target, length)
        return self.share(source, target, length)

    def release(self, slot: int) -> None:
        self._keep(slot, 0)

    def _keep(self, slot: int, length: int) -> None:
        """Gives back what lies beyond ``length`` positions, if it is much."""
        beyond = self._reached[slot] - length
        if beyond * sum(memory.row for memory in self._memory) > ROUNDING:
            start = self.span(slot, length).stop
            for memory in self._memory:
                memory.give_back(start, start + beyond)
            self._reached[slot] = length
