"""Attention that reads pages where they lie: an operation of torch, which a GPU does by FlexAttention.

A CPU does the same by gathering what the block mask says. That is for the emulated device and for tests; our own way on a CPU is exact to
the bit (attention.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, FlexKernelOptions, flex_attention

from engine.rollout.native.layout.page_mask import MOST_ROWS, PageMask, rows_of, visible

COMPILED, SHARED = 512, 64
"""Kernels of FlexAttention that torch may compile, beyond which it fails; and how many of them are for what is of any shape."""

MOST_KEPT = 192
"""Numbers of a key in 16 bits, of which a whole page is taken at once; of larger ones there may be no room for so many."""


@torch.library.custom_op("longtail::attend_to_pages", mutates_args=(), device_types="cpu")
def attend_to_pages(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    partial_count: Tensor,
    partial: Tensor,
    full_count: Tensor | None,
    full: Tensor | None,
    places: Tensor,
    positions: Tensor,
    newest: Tensor | None,
    paths: Tensor | None,
    window: int,
    page: int,
    scale: float,
) -> Tensor:
    """``query`` [n, kv_heads, R, head_dim] of rows that fill blocks, ``keys`` and ``values`` [kv_heads, rows, head_dim] of the cache; the
    others as of PageMask. [n, kv_heads, R, head_dim]."""
    mask = PageMask(partial_count, partial, full_count, full, places, positions, newest, paths, window, page)
    n, heads, rows, size = query.shape
    blocks = partial.shape[2]
    some = int(partial_count.max())
    there = partial[:, 0, :, :some]
    counted = torch.arange(some) < partial_count[:, 0, :, None]
    whole = 0
    if full is not None and full_count is not None:
        whole = int(full_count.max())
        there = torch.cat((full[:, 0, :, :whole], there), -1)
        counted = torch.cat((torch.arange(whole) < full_count[:, 0, :, None], counted), -1)
    entries = (there[..., None] * page + torch.arange(page)).view(n, blocks, 1, -1)
    sees = visible(mask, torch.arange(n)[:, None, None, None], torch.arange(rows).view(1, blocks, -1, 1), entries.long())
    sees[..., : whole * page] = True
    sees &= counted.repeat_interleave(page, -1)[:, :, None]
    sees |= ~sees.any(-1, keepdim=True)  # rows of nobody, which shall have numbers
    seen = [each[:, entries.view(n, blocks, -1)].movedim(0, 2).flatten(0, 1) for each in (keys, values)]
    asked = query.view(n, heads, blocks, -1, size).transpose(1, 2).flatten(0, 1)
    mixed = F.scaled_dot_product_attention(asked, seen[0], seen[1], sees.flatten(0, 1)[:, None], scale=scale)
    return mixed.view(n, blocks, heads, -1, size).transpose(1, 2).reshape(query.shape)


def flex_to_pages(query: Tensor, keys: Tensor, values: Tensor, mask: PageMask, scale: float) -> Tensor:
    """The same by FlexAttention, for torch.compile."""
    rows = query.shape[2] // mask.partial.shape[2]
    blocks = BlockMask.from_kv_blocks(
        mask.partial_count,
        mask.partial,
        mask.full_count,
        mask.full,
        (rows, mask.page),
        lambda request, head, row, entry: visible(mask, request, row, entry),  # noqa: ARG005
        (query.shape[2], keys.shape[1]),
        compute_q_blocks=False,
    )
    # What it would choose may be larger than a page: 128 keys of 64 numbers, on an H100.
    options: FlexKernelOptions = {"BLOCK_N": mask.page} if query.itemsize == 2 and query.shape[3] <= MOST_KEPT else {}
    mixed = flex_attention(query, keys[None], values[None], block_mask=blocks, scale=scale, kernel_options=options)
    assert isinstance(mixed, Tensor)
    return mixed


def as_prompt(query: Tensor, mask: PageMask) -> tuple[Tensor, PageMask]:
    """The same with so many rows that it is no matter of few: those behind the others are nobody's."""
    more = MOST_ROWS - query.shape[2]
    paths = None if mask.paths is None else F.pad(mask.paths, (0, 0, 0, more))
    return F.pad(query, (0, 0, 0, more)), mask._replace(positions=F.pad(mask.positions, (0, more)), paths=paths)


class Kernels:
    """Compiled when they are first needed. Of few rows there is one for each shape, which splits keys among processors, up to ``most``
    shapes. Prompts, of any length, share one, and so do the few rows of further shapes."""

    def __init__(self, most: int = COMPILED - SHARED) -> None:
        self.shapes: set[tuple[object, ...]] = set()
        self._most = most
        self._made: dict[bool, Callable[..., Tensor]] = {}

    def have_own(self, query: Tensor, keys: Tensor, values: Tensor, mask: PageMask) -> bool:
        """Whether few rows of these shapes have a kernel of their own, from now on."""
        given = (query, keys, values, *mask)
        shape = tuple((each.shape, each.stride(), each.dtype) if isinstance(each, Tensor) else each for each in given)
        if len(self.shapes) < self._most:
            self.shapes.add(shape)
        return shape in self.shapes

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: PageMask, scale: float) -> Tensor:
        rows = query.shape[2]
        if mask.paths is not None:
            torch._dynamo.mark_static(mask.paths, 2)
        if rows >= MOST_ROWS:
            return self._of(False)(query, keys, values, mask, scale)
        if self.have_own(query, keys, values, mask):
            return self._of(True)(query, keys, values, mask, scale)
        query, mask = as_prompt(query, mask)
        if mask.paths is not None:
            torch._dynamo.mark_static(mask.paths, 2)
        return self._of(False)(query, keys, values, mask, scale)[:, :, :rows]

    def _of(self, few_rows: bool) -> Callable[..., Tensor]:
        if few_rows not in self._made:
            dynamo: Any = torch._dynamo.config
            dynamo.recompile_limit = dynamo.accumulated_recompile_limit = COMPILED
            dynamo.specialize_int = True  # torch 2.11 cannot compile a mask that computes with a number that may change
            self._made[few_rows] = torch.compile(flex_to_pages, fullgraph=True, dynamic=not few_rows)
        return self._made[few_rows]


_KERNELS = Kernels()


@attend_to_pages.register_kernel("cuda")
def _on_gpu(query: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *mask, scale = rest
    return _KERNELS.attend(query, keys, values, PageMask(*mask), scale)


class PageReading:
    """What attention reads of pages, where they lie."""

    def __init__(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """[kv_heads, rows, head_dim] of each layer."""
        self._keys, self._values = keys, values

    def attend(self, query: Tensor, layer: int, mask: PageMask, scale: float) -> Tensor:
        """``query`` [n, kv_heads, R, head_dim] to the same."""
        rows = query.shape[2]
        blocks, block = rows_of(rows)
        filled = F.pad(query, (0, 0, 0, blocks * block - rows))
        mixed: Tensor = attend_to_pages(filled, self._keys[layer], self._values[layer], *mask, scale)
        return mixed[:, :, :rows]
