"""Attention in which a token's result has the same bits whatever tokens and requests are beside it.

What decides the order in which torch's kernel for CPUs adds up, found by comparing bits under AVX2 and AVX-512 with one and two threads,
on Intel and AMD: blocks of 512 positions, of which no more than 256 (with MKL's kernels for AMD 192) are added up one after the other, so
that more are added up in parts; the place of a position among 16 lanes; and whether a matrix product's rows are a multiple of 6 (12 for
heads wider than 128) for each thread, and no more than 30.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.reach import BLOCK, PARTS

ROWS = 6
MOST_ROWS = 30
WIDE_HEAD = 128


def part_of(position: int, part: int) -> tuple[int, int]:
    """Of positions in the same one the sum goes on; block, and ``part`` of it."""
    return position // BLOCK, position % BLOCK // part


@cache
def part_length() -> int:
    """The most positions of a block that this machine adds up one after the other. Which kernels MKL takes has no name that one could ask
    for; so it is read from bits."""
    most, least = PARTS
    query, keys, values = torch.randn(3, 1, 8, most, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    mask = torch.zeros(1, 1, row_unit(64), most, dtype=torch.float32)
    mask[..., least:] = -torch.inf
    short, long = (attend(query[:, :, :1], keys[:, :, :reach], values[:, :, :reach], mask[..., :reach], 0.125) for reach in (least, most))
    return most if torch.equal(short, long) else least


def row_unit(head_dim: int) -> int:
    """What the rows of a matrix product are filled up to a multiple of. They are shared out among threads."""
    rows = ROWS if head_dim <= WIDE_HEAD else 2 * ROWS
    return rows * min(torch.get_num_threads(), MOST_ROWS // rows)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``query`` [n, heads, R, head_dim], ``keys`` and ``values`` [n, heads, L, head_dim], ``mask`` [n, 1, R or more, L], which
    is added to the scores, which are times ``scale``, to [n, heads, R, head_dim]. The rows that the mask has more are filled up."""
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, keys, values, mask, scale=scale)
    alone = len(query) == query.shape[1] == 1 < torch.get_num_threads()  # then the product itself would be shared out among threads
    if alone:
        query, keys, values = (each.expand(2, -1, -1, -1) for each in (query, keys, values))
    rows, filled = query.shape[2], mask.shape[2]
    if filled > rows:
        query = F.pad(query, (0, 0, 0, filled - rows))
    unit = row_unit(query.shape[3])
    most = MOST_ROWS // unit * unit
    if filled <= most:
        whole = F.scaled_dot_product_attention(query, keys, values, mask, scale=scale)
    else:
        parts = zip(torch.split(query, most, 2), torch.split(mask, most, 2), strict=True)
        whole = torch.cat([F.scaled_dot_product_attention(part, keys, values, visible, scale=scale) for part, visible in parts], 2)
    return (whole[:1] if alone else whole).narrow(2, 0, rows)
