"""Attention in which a token's result has the same bits whatever tokens and requests are beside it, and how far the cache is read.

What decides the order in which torch's kernel for CPUs adds up, found by comparing bits under AVX2 and AVX-512 with one and two threads:
blocks of 512 positions, whose halves are added up apart if more than 256 are read; the place of a position among 16 lanes; and
whether a matrix product's rows are a multiple of 6 (12 for heads wider than 128) for each thread, and no more than 30.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

LANES = 16
HALF_BLOCK = 256
"""Positions, from a multiple of it on, that are added up one after the other."""
ROWS = 6
MOST_ROWS = 30
WIDE_HEAD = 128


def whole_reach(reach: int, granularity: int) -> int:
    """The number of positions to read so that at least ``reach`` are: a multiple of ``granularity`` (one of 16), and all of a block
    that is read beyond its half."""
    reach = -(-reach // granularity) * granularity
    within = reach % (2 * HALF_BLOCK)
    return reach + 2 * HALF_BLOCK - within if within > HALF_BLOCK else reach


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
    parts = zip(torch.split(query, most, 2), torch.split(mask, most, 2), strict=True)
    mixed = [F.scaled_dot_product_attention(part, keys, values, visible, scale=scale) for part, visible in parts]
    whole = mixed[0] if len(mixed) == 1 else torch.cat(mixed, 2)
    return whole[: 1 if alone else None, :, :rows]
