"""How attention reads the cache on a CPU: all requests up to one reach, under a mask that is added to the scores."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.rollout.native.architecture import SLIDING, Architecture
from engine.rollout.native.attention import attend, row_unit
from engine.rollout.native.placement import Placement


class DenseMasks:
    """Makes masks [n, 1, T * heads / kv_heads or more, L], see ``attend``."""

    def __init__(self, architecture: Architecture, like: Tensor) -> None:
        self._a = architecture
        self._seen, self._unseen = like.new_zeros(()), like.new_full((), -torch.inf)

    def of(self, placed: Placement, positions: Tensor) -> list[Tensor]:
        """Of each type of attention; of ``positions`` [L] that are read. A tree's entries are never before their positions, and a window is
        longer than a draft, so what it hides is before the tree."""
        visible = _visible(placed, positions)
        if placed.drafter:
            return [self._mask(visible, filled=False)]
        whole, window, types = self._mask(visible), self._a.window, self._a.attention_types
        if window is None or len(positions) <= window:
            return [whole] * len(types)
        near = self._mask(visible & (positions > placed.positions[:, :, None] - window))
        return [near if each == SLIDING else whole for each in types]

    def _mask(self, visible: Tensor, filled: bool = True) -> Tensor:
        """``visible`` [n, T, L] as ``attend`` adds it, ``filled`` up to rows that a CPU adds up in one order: what the drafter says of a
        token may depend on what is beside it."""
        n, t, reach = visible.shape
        mask = torch.where(visible[:, :, None], self._seen, self._unseen)
        mask = mask.expand(n, t, self._a.heads // self._a.kv_heads, reach).reshape(n, 1, -1, reach)
        return pad(mask, (0, 0, 0, -mask.shape[2] % row_unit(self._a.head_dim))) if filled else mask


def _visible(placed: Placement, positions: Tensor) -> Tensor:
    """[n, T, L]."""
    if placed.paths is None:
        return positions <= placed.positions[:, :, None]
    n, t, nodes = placed.paths.shape
    entries = placed.root + torch.arange(nodes, device=positions.device) if placed.entries is None else placed.entries
    visible = (positions < placed.root)[:, None].repeat(1, t, 1)
    return visible.scatter_(2, entries[:, None].expand(n, t, nodes), placed.paths)


class SlotViews:
    """What attention reads of slots, where it is: ``keys`` and ``values`` of each layer, [n, kv_heads, L, head_dim]."""

    def __init__(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        self._keys, self._values = keys, values

    def attend(self, query: Tensor, layer: int, mask: Tensor, scale: float) -> Tensor:
        return attend(query, self._keys[layer], self._values[layer], mask, scale)


class SplitViews:
    """The same of parts of the slots, which reach differently far; their masks are as many."""

    def __init__(self, parts: Sequence[tuple[slice, SlotViews]]) -> None:
        self._parts = parts

    def attend(self, query: Tensor, layer: int, mask: Sequence[Tensor], scale: float) -> Tensor:
        return torch.cat([read.attend(query[part], layer, seen, scale) for (part, read), seen in zip(self._parts, mask, strict=True)])


class GatheredPages:
    """What attention reads of pages, gathered for one layer at a time."""

    def __init__(self, store: Sequence[Tensor], rows: Tensor, heads: int) -> None:
        """``store`` [rows, 2 * kv_heads * head_dim] of each layer; ``rows`` [n, L] of it."""
        self._store, self._shape, self._rows, self._heads = store, rows.shape, rows.flatten(), heads

    def attend(self, query: Tensor, layer: int, mask: Tensor, scale: float) -> Tensor:
        read = self._store[layer].index_select(0, self._rows).view(*self._shape, 2, self._heads, -1).transpose(1, 3)
        return attend(query, read[:, :, 0], read[:, :, 1], mask, scale)
