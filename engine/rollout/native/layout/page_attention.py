"""Attention that reads pages where they lie: an operation of torch, which a GPU does by kernels of its own (page_kernel.py).

A CPU does the same by gathering. That is for the emulated device and for tests; our own way on a CPU is exact to the bit (attention.py).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.placement import Placement

WORD = 64
"""Nodes of a tree in a word of bits."""


class PageMask(NamedTuple):
    """For n requests of T tokens each: ``table`` [n, places] are a request's pages in their order, of ``page`` positions each.

    A token sees positions up to its own in ``positions`` [n, T]; of a tree those before ``newest`` [n], and of the ``nodes`` that follow
    those whose bits are set in ``paths`` [n, T, words], 64 in a word. With ``window`` it sees no others than the last so many. Nothing
    here depends on numbers that the host knows: graphs stay as they are.
    """

    table: Tensor
    positions: Tensor
    newest: Tensor | None
    paths: Tensor | None
    nodes: int
    window: int
    page: int


def page_mask(pages: Pages, placed: Placement, window: int | None) -> PageMask:
    table, positions = pages.entries[placed.first : placed.first + placed.requests], placed.positions.contiguous()
    if placed.paths is None:
        return PageMask(table, positions, None, None, 0, window or 0, pages.page)
    newest, nodes = placed.root[:, 0].contiguous(), placed.paths.shape[2]
    return PageMask(table, positions, newest, _words(placed.paths), nodes, window or 0, pages.page)


def _words(paths: Tensor) -> Tensor:
    """``paths`` [n, T, nodes] as bits, [n, T, words]."""
    padded = F.pad(paths.long(), (0, -paths.shape[2] % WORD))
    bits = padded.view(*padded.shape[:2], -1, WORD)
    return bits.mul_(1 << torch.arange(WORD, device=paths.device)).sum(3)


@torch.library.custom_op("longtail::attend_to_pages", mutates_args=(), device_types="cpu")
def attend_to_pages(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    positions: Tensor,
    newest: Tensor | None,
    paths: Tensor | None,
    nodes: int,
    window: int,
    page: int,
    scale: float,
) -> Tensor:
    """``query`` [n, kv_heads, R, head_dim], of whose rows as many, one after the other, are of one token; ``keys`` and ``values``
    [kv_heads, rows, head_dim] of the cache; the others as of PageMask. [n, kv_heads, R, head_dim]."""
    last = positions.max() if newest is None else newest.max() + nodes - 1
    places = torch.arange((int(last) // page + 1) * page)
    entries = table[:, places // page].long() * page + places % page
    sees = visible(PageMask(table, positions, newest, paths, nodes, window, page), places)
    sees |= ~sees.any(-1, keepdim=True)  # rows of nobody, which shall have numbers
    seen = [each[:, entries].movedim(0, 1) for each in (keys, values)]
    mask = sees.repeat_interleave(query.shape[2] // positions.shape[1], 1)[:, None]
    return F.scaled_dot_product_attention(query, seen[0], seen[1], mask, scale=scale)


def visible(mask: PageMask, places: Tensor) -> Tensor:
    """Which of the positions ``places`` [P] each token sees, [n, T, P]."""
    own = mask.positions[:, :, None]
    if mask.newest is None or mask.paths is None:
        sees = places <= own
    else:
        node = (places - mask.newest[:, None])[:, None].expand(-1, own.shape[1], -1)
        inside = node.clamp(0, mask.nodes - 1)
        sees = (node < 0) | ((mask.paths.gather(2, inside // WORD) >> inside % WORD & 1 != 0) & (node < mask.nodes))
    return sees & (places > own - mask.window) if mask.window else sees


@attend_to_pages.register_fake
def _of_shape(query: Tensor, *_: object) -> Tensor:
    return torch.empty(query.shape, dtype=query.dtype, device=query.device)


@attend_to_pages.register_kernel("cuda")
def _on_gpu(query: Tensor, *rest: Any) -> Tensor:
    from engine.rollout.native.layout import page_kernel

    attend: Callable[..., Tensor] = page_kernel.attend
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
        return attend(query, *rest, _processors(query.device))


@cache
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


class PageReading:
    """What attention reads of pages, where they lie."""

    def __init__(self, keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """[kv_heads, rows, head_dim] of each layer."""
        self._keys, self._values = keys, values

    def attend(self, query: Tensor, layer: int, mask: PageMask, scale: float) -> Tensor:
        """``query`` [n, kv_heads, R, head_dim] to the same."""
        mixed: Tensor = attend_to_pages(query, self._keys[layer], self._values[layer], *mask, scale)
        return mixed
