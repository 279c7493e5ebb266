"""Which pages of memory hold which positions of which slot: bookkeeping on the host, without tensors.

A slot with room for ``length`` positions holds ``ceil(length / page)`` pages, of which it may share the first ones with others. Nothing
else is held. So whoever came and went, what is held for requests is their positions, and for each less than one page more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PAGE = 64
"""Positions of a page, by default: on average half of one is lost for a request, and a GPU multiplies blocks of as many."""


class OutOfPagesError(Exception):
    """The caller did not look whether there are enough."""


class PageTable:
    """A page may be in the tables of several slots, at the same place of each; then nothing is written to it but what is there already.
    Page 0 is nobody's: positions without a page lie there, and nobody looks at them."""

    def __init__(self, slots: int, capacity: int, pages: int, page: int = PAGE) -> None:
        """Of ``slots`` with at most ``capacity`` positions each, out of ``pages`` of ``page`` positions, besides page 0."""
        self.page = page
        self.entries: NDArray[np.int32] = np.zeros((slots, self.pages(capacity)), np.int32)
        """[slots, places], 0 where there is no page."""
        self.changes = 0
        self._held = [0] * slots
        self._holders = [0] * (pages + 1)
        self._free = list(range(pages, 0, -1))

    def pages(self, length: int) -> int:
        """How many ``length`` positions take."""
        return -(-length // self.page)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return len(self._holders) - 1 - len(self._free)

    def missing(self, lengths: Sequence[int]) -> int:
        """How many pages the first slots lack for ``lengths`` positions."""
        return sum(max(0, self.pages(length) - held) for length, held in zip(lengths, self._held, strict=False))

    def grow(self, slot: int, length: int) -> None:
        """Gives a slot room for ``length`` positions, if it has less. OutOfPagesError, and nothing changed, if there is none."""
        lacks = self.pages(length) - self._held[slot]
        if lacks > len(self._free):
            raise OutOfPagesError(f"slot {slot} lacks {lacks} pages for {length} positions, {len(self._free)} are free")
        for _ in range(lacks):
            page = self._free.pop()
            self._hold(slot, page)

    def share(self, source: int, target: int, length: int) -> tuple[int, int]:
        """Gives an empty slot ``length`` positions of another. Full pages are the same ones. That of the last position both will write to,
        so it is to be copied: returns it, and the page to copy it to. OutOfPagesError as ``grow``."""
        full = (length - 1) // self.page
        if not self._free:
            raise OutOfPagesError(f"slot {target} lacks a page, none is free")
        for page in self.entries[source, :full].tolist():
            self._hold(target, page)
        self.grow(target, length)
        return int(self.entries[source, full]), int(self.entries[target, full])

    def hand_over(self, source: int, target: int) -> None:
        """A slot's pages become those of another, which gives up its own."""
        self.release(target)
        self.entries[target], self._held[target] = self.entries[source], self._held[source]
        self.entries[source], self._held[source] = 0, 0

    def release(self, slot: int) -> None:
        """A slot gives up its pages; again is no error."""
        for page in self.entries[slot, : self._held[slot]].tolist():
            self._holders[page] -= 1
            if not self._holders[page]:
                self._free.append(page)
        self.entries[slot], self._held[slot] = 0, 0
        self.changes += 1

    def _hold(self, slot: int, page: int) -> None:
        self.entries[slot, self._held[slot]] = page
        self._held[slot] += 1
        self._holders[page] += 1
        self.changes += 1
