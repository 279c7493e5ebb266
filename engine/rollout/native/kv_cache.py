"""What is kept of every running request: tokens, keys and values, and features. Request i of the batch lives in slot i."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.rollout.native.architecture import SLIDING, Architecture, Rotary
from engine.rollout.native.attention import part_length, row_unit, whole_reach
from engine.rollout.native.decoder_layer import AttentionInputs, ForwardPass
from engine.rollout.native.sending import sent


class KVCache:
    """Slots of ``capacity`` positions. A position is always written before it is seen, so slots are never cleared.

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
        granularity: int,
        slots: int,
        capacity: int,
    ) -> None:
        """On ``like``'s device, in its data type. No ``drafter_rotary``, and a ``width`` of 0, is for no drafter. Passes reach over a
        multiple of ``granularity`` positions, on a CPU see ``whole_reach``, and so does the ``capacity``.

        Slots are an odd number of rows apart: were it a power of two, they would fall on the same lines of a processor's cache.
        """
        self._granularity = granularity
        self._part = granularity if like.is_cuda else part_length()
        capacity = self.whole_reach(capacity)
        self._slot = capacity | 1
        a, device, rows = architecture, like.device, slots * self._slot
        self._a, self._like, self._drafting = architecture, like, width > 0
        self.slots, self.capacity = slots, capacity
        self.positions = torch.arange(capacity, device=device)
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.features = _zeros(like, rows if width else 0, width)
        self._store = _zeros(like, a.layers + self._drafting, rows, 2 * a.kv_heads * a.head_dim)
        self._layers = self._store.unbind()
        self._kv = self._store.view(a.layers + self._drafting, slots, self._slot, 2, a.kv_heads, a.head_dim)
        self.slots_from_0 = torch.arange(slots, device=device)[:, None]
        self._start = self.slots_from_0 * self._slot
        self._tables = rotary.tables(capacity)
        self._drafter_tables = drafter_rotary.tables(capacity) if drafter_rotary else []
        self._seen, self._unseen = like.new_zeros(()), like.new_full((), -torch.inf)

    def whole_reach(self, reach: int) -> int:
        """How far a pass reads that is to read ``reach`` positions."""
        return whole_reach(reach, self._granularity, self._part)

    def write(self, slot: int, prompt: Sequence[int]) -> None:
        """Puts a prompt's tokens at the start of a slot."""
        start = slot * self._slot
        self.tokens[start : start + len(prompt)] = sent(prompt, self.tokens.device)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copies the first ``length`` positions of one slot to another."""
        old = slice(source * self._slot, source * self._slot + length)
        new = slice(target * self._slot, target * self._slot + length)
        self.tokens[new] = self.tokens[old]
        self._store[:, new] = self._store[:, old]
        if self._drafting:
            self.features[new] = self.features[old]

    def features_of(self, slot: int, length: int) -> Tensor:
        """A copy of a slot's first ``length`` features, bf16 on the host."""
        start = slot * self._slot
        return self.features[start : start + length].to("cpu", torch.bfloat16, copy=True)

    def index(self, positions: Tensor, first: int = 0) -> Tensor:
        """Rows of the flattened cache of ``positions`` [n, T] of slots ``first`` and following; [n, T]."""
        return positions + self._start[first : first + len(positions)]

    def move(self, slots: Tensor, sources: Tensor, targets: Tensor) -> None:
        """Copies single positions ``sources`` [m] of ``slots`` [m] to ``targets`` [m], but for the tokens."""
        start = slots * self._slot
        self._store[:, start + targets] = self._store[:, start + sources]
        if self._drafting:
            self.features[start + targets] = self.features[start + sources]

    def plan(
        self,
        positions: Tensor,
        reach: int,
        first: int = 0,
        *,
        entries: Tensor | None = None,
        visible: Tensor | None = None,
        rows: Tensor | None = None,
        drafter: bool = False,
    ) -> ForwardPass:
        """A pass of the target, or of the drafter, over tokens at ``positions`` [n, T] of slots ``first`` and following; a token sees
        itself and all before it.

        A tree's tokens lie at ``entries`` [n, T] of the cache, not at their positions, and see what ``visible`` [n, T, reach] tells.
        ``rows`` [R] are the tokens there are, if not all. Positions and entries are below ``reach``.
        """
        n, t = positions.shape
        reach = self.whole_reach(reach)
        index = self.index(positions if entries is None else entries, first).flatten()
        if visible is None:
            visible = self.positions[:reach] <= positions[:, :, None]
        layers = slice(self._a.layers, None) if drafter else slice(self._a.layers)
        window = self._kv[layers, first : first + n, :reach].transpose(2, 4)
        flat = positions.flatten()
        if rows is not None:
            index, flat = index.index_select(0, rows), flat.index_select(0, rows)
        masks = [self._mask(visible, filled=False)] if drafter else self._masks(visible, positions)
        tables = self._drafter_tables if drafter else self._tables
        return ForwardPass(
            requests=n,
            tokens=t,
            rows=rows,
            index=index,
            attention=tuple(
                AttentionInputs(cosine.index_select(0, flat), sine.index_select(0, flat), mask)
                for (cosine, sine), mask in zip(tables, masks, strict=True)
            ),
            store=self._layers[layers],
            keys=window[:, :, :, 0].unbind(),
            values=window[:, :, :, 1].unbind(),
        )

    def _masks(self, visible: Tensor, positions: Tensor) -> list[Tensor]:
        """Of each type of attention, from what the tokens at ``positions`` [n, T] see: ``visible`` [n, T, reach]. A tree's entries are
        never before their positions, and a window is longer than a draft, so what it hides is before the tree."""
        whole = self._mask(visible)
        window, reach = self._a.window, visible.shape[2]
        if window is None or reach <= window:
            return [whole] * len(self._tables)
        near = self._mask(visible & (self.positions[:reach] > positions[:, :, None] - window))
        return [near if each == SLIDING else whole for each in self._a.attention_types]

    def _mask(self, visible: Tensor, filled: bool = True) -> Tensor:
        """``visible`` [n, T, reach] as ``attend`` adds it, ``filled`` up to rows that a CPU adds up in one order: what the drafter says of
        a token may depend on what is beside it."""
        n, t, reach = visible.shape
        mask = torch.where(visible[:, :, None], self._seen, self._unseen)
        mask = mask.expand(n, t, self._a.heads // self._a.kv_heads, reach).reshape(n, 1, -1, reach)
        return pad(mask, (0, 0, 0, -mask.shape[2] % row_unit(self._a.head_dim))) if filled and not mask.is_cuda else mask

    def tree_plan(
        self,
        newest: Tensor,
        positions: Tensor,
        entries: Tensor,
        paths: Tensor,
        reach: int,
        *,
        rows: Tensor | None = None,
        drafter: bool = False,
    ) -> ForwardPass:
        """A pass over the last tokens of trees, whose tokens lie at ``entries`` [n, nodes] of the cache, the first ones since an earlier
        pass. ``positions`` [n, T] are those of the last; ``paths`` [n, T, nodes] tells which tree tokens each sees, besides all before
        ``newest`` [n, 1]."""
        n, t, nodes = paths.shape
        reach = self.whole_reach(reach)
        visible = (self.positions[:reach] < newest)[:, None].repeat(1, t, 1)
        visible.scatter_(2, entries[:, None].expand(n, t, nodes), paths)
        return self.plan(positions, reach, entries=entries[:, nodes - t :], visible=visible, rows=rows, drafter=drafter)


def _zeros(like: Tensor, *shape: int) -> Tensor:
    """Zeros, which on a CPU take memory only once they are written: most responses are far shorter than their slots."""
    if like.is_cuda or 0 in shape:
        return like.new_zeros(*shape)
    untouched = np.zeros(math.prod(shape) * like.element_size(), np.uint8)
    return torch.from_numpy(untouched).view(like.dtype).view(shape)
