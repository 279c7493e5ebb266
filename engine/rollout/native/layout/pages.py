"""The layout of a GPU: pages of positions that lie anywhere, found by a table, so that requests hold memory for what they have written
and siblings hold their prompt once. ``page_table`` is the bookkeeping; this is the table where the tensors are."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.rollout.native.layout.interface import Copies
from engine.rollout.native.layout.mapped_memory import MappedMemory
from engine.rollout.native.layout.page_table import PAGE, PageTable
from engine.rollout.native.sending import send_to, sent


class Pages:
    """A Layout."""

    def __init__(self, slots: int, capacity: int, pages: int, device: torch.device, page: int = PAGE) -> None:
        """As of PageTable."""
        self.slots, self.page, self.table = slots, page, PageTable(slots, capacity, pages, page)
        self.rows = (pages + 1) * page if slots else 0
        width = self.table.pages(capacity)
        self.entries = torch.zeros(slots, width, dtype=torch.int32, device=device)
        """[slots, places]: the pages of each slot. It stays where it is in memory."""
        self._settled = -1

    @property
    def free(self) -> int:
        return self.table.free

    def zeros(self, like: Tensor, *shape: int) -> Tensor:
        return like.new_zeros(*shape) if like.device.type != "cpu" or 0 in shape else MappedMemory(like.dtype, shape).tensor

    def settle(self) -> None:
        if self._settled != self.table.changes:
            send_to(self.entries, self.table.entries)
            self._settled = self.table.changes

    def index(self, positions: Tensor, first: int) -> Tensor:
        pages = self.entries[first : first + len(positions)].gather(1, positions.div(self.page, rounding_mode="floor"))
        return torch.add(positions % self.page, pages, alpha=self.page)

    def span(self, slot: int, length: int) -> Tensor:
        held = self.table.entries[slot, : self.table.pages(length), None].astype(np.int64)
        return sent((held * self.page + np.arange(self.page)).ravel()[:length].tolist(), self.entries.device)

    def cost(self, length: int, shared: int = 0) -> int:
        return self.table.pages(length) - max(0, shared - 1) // self.page

    def missing(self, lengths: Sequence[int]) -> int:
        return self.table.missing(lengths)

    def grow(self, slot: int, length: int) -> None:
        self.table.grow(slot, length)

    def share(self, source: int, target: int, length: int) -> Copies:
        pages = self.table.share(source, target, length)
        return Copies(*(slice(page * self.page, (page + 1) * self.page) for page in pages))

    def hand_over(self, source: int, target: int, length: int) -> None:  # noqa: ARG002
        self.table.hand_over(source, target)

    def release(self, slot: int) -> None:
        self.table.release(slot)
