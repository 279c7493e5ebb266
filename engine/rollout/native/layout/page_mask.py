"""Which pages each block of rows of a query sees, wholly or in part, and which positions of the latter: the block mask of FlexAttention.

A row's pages are those below its position. Of a prompt all but the last few are seen as a whole, and have no mask to be computed. Of few
rows all are listed as seen in part: the kernel for these splits a request's pages among processors if they are in one list. If they are in
two, it splits the whole cache, and takes both to be as long. Nothing here depends on numbers that the host knows: graphs stay as they are.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.rollout.native.layout.pages import Pages
from engine.rollout.native.placement import Placement

LEAST_ROWS, MOST_ROWS = 16, 128
"""Of a block of a query."""
LEAST_NODES = 16
"""Of a tree: there is room for a power of two, so that its levels share kernels."""


class PageMask(NamedTuple):
    """For n requests with Q blocks of rows each. Blocks see ``partial`` [n, 1, Q, K] pages, the first ``partial_count`` [n, 1, Q] of
    them, in part, and likewise ``full`` pages as a whole, if there are any, in a list as long, as torch 2.11 finds both by the strides of
    the first. ``places`` [pages] tells where in a request a page lies, and so
    the position of each of its rows.

    Row r sees positions up to ``positions`` [n, R]; of a tree those before ``newest`` [n], and of the following those that ``paths``
    [n, R, nodes] tells. With ``window`` it sees no others than the last so many. R are the rows of all blocks.
    """

    partial_count: Tensor
    partial: Tensor
    full_count: Tensor | None
    full: Tensor | None
    places: Tensor
    positions: Tensor
    newest: Tensor | None
    paths: Tensor | None
    window: int
    page: int


def rows_of(rows: int) -> tuple[int, int]:
    """Blocks and the rows of a block for a query of so many rows: a power of two, of which kernels are made for few."""
    block = min(max(LEAST_ROWS, 1 << (rows - 1).bit_length()), MOST_ROWS)
    return -(-rows // block), block


def page_mask(pages: Pages, placed: Placement, group: int, window: int | None) -> PageMask:
    """``group`` rows of a query, one after the other, are of one token."""
    n, t = placed.positions.shape
    blocks, block = rows_of(t * group)
    tokens = (torch.arange(blocks * block, device=placed.positions.device) // group).clamp_(max=t - 1)
    positions = placed.positions.index_select(1, tokens)
    ends = positions.view(n, blocks, block)
    if placed.paths is None:
        nodes, newest, paths = 0, None, None
        seen, last = ends.amin(2) + 1, ends.amax(2)
    else:
        newest, count = placed.root[:, 0], placed.paths.shape[2]
        nodes = max(LEAST_NODES, 1 << (count - 1).bit_length())
        paths = pad(placed.paths.index_select(1, tokens), (0, nodes - count))
        seen = placed.root.expand(n, blocks)
        last = seen + (count - 1)
    span = max(nodes, min(t, block // group + 1))
    table = pages.entries[placed.first : placed.first + n]
    full_count, full = None, None
    if window:
        begin, span = (ends.amin(2) - (window - 1)).clamp_(min=0) // pages.page, span + window
    elif blocks * block < MOST_ROWS:
        begin, span = torch.zeros_like(seen), table.shape[1] * pages.page
    else:
        begin = seen // pages.page
        full_count, full = begin.int()[:, None], table[:, None, None].expand(n, 1, blocks, -1).contiguous()
    width = min((span - 1) // pages.page + 2, table.shape[1])
    there = begin[:, :, None] + torch.arange(width, device=begin.device)
    partial = table[:, None].expand(n, blocks, -1).gather(2, there.clamp_(max=table.shape[1] - 1))
    if full is not None:
        partial = pad(partial, (0, table.shape[1] - width))
    return PageMask(
        (last // pages.page + 1 - begin).int()[:, None],
        partial[:, None],
        full_count,
        full,
        pages.places,
        positions,
        newest,
        paths,
        window or 0,
        pages.page,
    )


def visible(mask: PageMask, request: Tensor, row: Tensor, entry: Tensor) -> Tensor:
    """Whether row ``row`` of a request sees what lies in row ``entry`` of the cache, if that is in one of its pages."""
    position = mask.places[entry // mask.page] * mask.page + entry % mask.page
    own = mask.positions[request, row]
    if mask.paths is None or mask.newest is None:
        sees = position <= own
    else:
        node, nodes = position - mask.newest[request], mask.paths.shape[2]
        sees = (node < 0) | ((node < nodes) & mask.paths[request, row, node.clamp(0, nodes - 1)])
    return sees & (position > own - mask.window) if mask.window else sees
