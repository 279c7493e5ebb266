"""What is kept of every running request: tokens, keys and values, and features. Request i of the batch lives in slot i.

Where a slot's positions lie is a Layout's matter. On a GPU they lie in pages (layout/pages.py), which attention reads where they are; on a
CPU in one piece (layout/slots.py), of which the operating system takes as much memory as is written. Either way the cache holds what the
running requests have reached, and a little for each. A CPU can have pages, too, for tests and to limit its memory: attention then gathers
them, with the same bits.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.models.device_to_host import HostCopy
from engine.rollout.native.architecture import SLIDING, Architecture, Rotary
from engine.rollout.native.attention import part_length
from engine.rollout.native.decoder_layer import AttentionInputs, ForwardPass, Reading
from engine.rollout.native.layout.dense_reading import DenseMasks, GatheredPages, SlotViews, SplitViews
from engine.rollout.native.layout.interface import Copies, Layout
from engine.rollout.native.layout.page_attention import PageMask, PageReading, page_mask
from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.layout.runs import runs
from engine.rollout.native.layout.slots import Slots
from engine.rollout.native.placement import Placement
from engine.rollout.native.reach import LANES, whole_reach
from engine.rollout.native.sending import sent


class KVCache:
    """``capacity`` positions of each slot. A position is always written before it is seen, so slots are never cleared.

    ``positions`` [capacity] counts from 0; ``tokens`` [rows]. For a drafter there are also the target's ``features`` [rows, width], and
    the drafter's keys and values as one layer more. ``index`` leads to the rows.
    """

    def __init__(
        self,
        architecture: Architecture,
        rotary: Rotary,
        drafter_rotary: Rotary | None,
        like: Tensor,
        width: int,
        layout: Layout,
        capacity: int,
        reads_pages: bool = False,
    ) -> None:
        """On ``like``'s device, in its data type. No ``drafter_rotary``, and a ``width`` of 0, is for no drafter. ``reads_pages``:
        attention reads pages where they are, however far that is; otherwise up to a reach."""
        a, device = architecture, like.device
        self._a, self._drafting = architecture, width > 0
        self.layout, self.slots, self.capacity, self.reads_pages = layout, layout.slots, capacity, reads_pages
        self.positions = torch.arange(capacity, device=device)
        self.tokens = torch.zeros(layout.rows, dtype=torch.long, device=device)
        self.features = layout.zeros(like, layout.rows if width else 0, width)
        self._store = layout.zeros(like, a.layers + self._drafting, layout.rows, 2 * a.kv_heads * a.head_dim)
        self._layers = self._store.unbind()
        slots = layout.slots if isinstance(layout, Slots) and layout.slots else 1
        self._kv = self._store.view(len(self._store), slots, layout.rows // slots, 2, a.kv_heads, a.head_dim)
        self.slots_from_0 = torch.arange(layout.slots, device=device)[:, None]
        self._tables = rotary.tables(capacity)
        self._drafter_tables: list[tuple[Tensor, Tensor]] = []
        if drafter_rotary:
            self.use_drafter_rotary(drafter_rotary)
        self._masks = DenseMasks(architecture, like)

    def use_drafter_rotary(self, rotary: Rotary) -> None:
        """Goes on with a drafter of these rotary positions."""
        self._drafter_tables = rotary.tables(self.capacity)

    def whole_reach(self, reach: int) -> int:
        """How far a pass reads that is to read ``reach`` positions."""
        return self.capacity if self.reads_pages else whole_reach(reach, LANES, part_length())

    def make_room(self, lengths: Sequence[int]) -> None:
        """The first slots are to have room for ``lengths`` positions. OutOfPagesError if there is none."""
        for slot, length in enumerate(lengths):
            self.layout.grow(slot, length)
        self.layout.settle()

    def write(self, slot: int, prompt: Sequence[int]) -> None:
        """Puts a prompt's tokens at the start of a slot."""
        self.layout.grow(slot, len(prompt))
        self.tokens[self.layout.span(slot, len(prompt))] = sent(prompt, self.tokens.device)

    def share(self, source: int, target: int, length: int) -> None:
        """A free slot has the first ``length`` positions of another, at the last of which no keys and values are known yet."""
        self._copy(self.layout.share(source, target, length))

    def hand_over(self, source: int, target: int, length: int) -> None:
        """The ``length`` positions of a slot go to another one."""
        if copies := self.layout.hand_over(source, target, length):
            self._copy(copies)
        self.release(source)

    def release(self, slot: int) -> None:
        """Nobody needs the slot's positions any more; again is no error."""
        self.layout.release(slot)

    def _copy(self, copies: Copies) -> None:
        old, new = copies
        self.tokens[new] = self.tokens[old]
        self._store[:, new] = self._store[:, old]
        if self._drafting:
            self.features[new] = self.features[old]

    def features_of(self, slot: int, length: int) -> HostCopy:
        """A copy of a slot's first ``length`` features."""
        return HostCopy(self.features, self.layout.span(slot, length))

    def index(self, positions: Tensor, first: int = 0) -> Tensor:
        """Rows of the flattened cache of ``positions`` [n, T] of slots ``first`` and following; [n, T]."""
        return self.layout.index(positions, first)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copies rows ``sources`` [m] to ``targets`` [m], but for the tokens."""
        self._store[:, targets] = self._store[:, sources]
        if self._drafting:
            self.features[targets] = self.features[sources]

    def plan(self, placed: Placement) -> ForwardPass:
        """The pass of the target, or of the drafter, that ``placed`` says."""
        written = self.index(placed.written, placed.first) if placed.index is None else placed.index
        index, positions, rows = written.flatten(), placed.positions.flatten(), placed.rows
        if rows is not None:
            index, positions = index.index_select(0, rows), positions.index_select(0, rows)
        layers = slice(self._a.layers, None) if placed.drafter else slice(self._a.layers)
        masks, reading = self._reading(placed, layers)
        tables = self._drafter_tables if placed.drafter else self._tables
        return ForwardPass(
            requests=placed.requests,
            tokens=placed.tokens,
            rows=rows,
            index=index,
            attention=tuple(
                AttentionInputs(cosine.index_select(0, positions), sine.index_select(0, positions), mask)
                for (cosine, sine), mask in zip(tables, masks, strict=True)
            ),
            store=self._layers[layers],
            reading=reading,
        )

    def chain(self, positions: Tensor, reach: int) -> list[ForwardPass]:
        """The drafter's passes of one position after the other, ``positions`` [n, T]."""
        if self.reads_pages:
            return [self.plan(Placement(column, reach, drafter=True)) for column in torch.split(positions, 1, 1)]
        whole = self.plan(Placement(positions, reach, drafter=True))
        return [whole.column(token) for token in range(positions.shape[1])]

    def _page_masks(self, placed: Placement) -> list[PageMask]:
        assert isinstance(self.layout, Pages)
        window = self._a.window
        whole = page_mask(self.layout, placed, None)
        if placed.drafter or window is None:
            return [whole] * (1 if placed.drafter else len(self._tables))
        near = page_mask(self.layout, placed, window)
        return [near if each == SLIDING else whole for each in self._a.attention_types]

    def _reading(self, placed: Placement, layers: slice) -> tuple[Sequence[Any], Reading]:
        """And its masks, of each type of attention."""
        if not placed.attends:
            return [None] * (1 if placed.drafter else len(self._tables)), SlotViews((), ())
        if self.reads_pages:
            keys, values = self._kv[layers, 0].permute(2, 0, 3, 1, 4)
            return self._page_masks(placed), PageReading(keys.unbind(), values.unbind())
        reach = self.whole_reach(placed.reach)
        masks = self._masks.of(placed, self.positions[:reach])
        if not isinstance(self.layout, Slots):
            rows = self.index(self.positions[:reach].expand(placed.requests, -1), placed.first)
            return masks, GatheredPages(self._layers[layers], rows, self._a.kv_heads)
        parts = runs(placed.reaches, self._a.kv_heads, self._a.head_dim) if len(placed.reaches) > 1 else []
        if len(parts) < 2:
            return masks, self._views(layers, placed.first, placed.requests, reach)
        parts = [(start, stop, self.whole_reach(far)) for start, stop, far in parts]
        views = [(slice(start, stop), self._views(layers, placed.first + start, stop - start, far)) for start, stop, far in parts]
        split = {id(mask): [mask[start:stop, :, :, :far] for start, stop, far in parts] for mask in masks}
        return [split[id(mask)] for mask in masks], SplitViews(views)

    def _views(self, layers: slice, first: int, requests: int, reach: int) -> SlotViews:
        window = self._kv[layers, first : first + requests, :reach].transpose(2, 4)
        return SlotViews(window[:, :, :, 0].unbind(), window[:, :, :, 1].unbind())
