"""The layout of a cache, and how many pages it may have."""

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.rollout.native.layout.page_table import PAGE
from engine.rollout.native.layout.pages import Pages

MOST_NUMBERS = 2**31
"""Of a layer: FlexAttention's kernels find a row of the cache by 32 bits."""
DIGITS = 5
"""Of the number of pages that fit into a GPU, in binary. Kernels are compiled for it, and the bytes that are left differ a little each time
that the cache is made."""


def make_pages(slots: int, capacity: int, like: Tensor, position: int, width: int, limit: int | None, beside: int) -> Pages:
    """Room for all that ``slots`` requests of ``capacity`` positions can need, but for no more than ``limit`` positions, nor for more
    than a GPU has bytes left, ``beside`` of which are for other things, at ``position`` bytes each, or can find, at ``width`` numbers each
    of a layer. ModelError if one request alone would not fit."""
    page = PAGE
    each = -(-capacity // page)
    most = slots * each if limit is None else min(slots * each, -(-limit // page))
    if like.is_cuda:
        fitting = (_left(like.device) - beside) // (page * position) - 1
        most = min(most, max(each, rounded(fitting)) if fitting >= each else fitting, MOST_NUMBERS // (page * width) - 1)
    if slots and most < each:
        raise ModelError(
            f"the cache has room for {max(0, most) * page} tokens, and one request may need {capacity}: give it more memory "
            "(rollout.cache_tokens, if it is set), or lower rollout.max_new_tokens"
        )
    return Pages(slots, capacity, max(0, most), like.device, page)


def rounded(count: int) -> int:
    """Down to the next number of ``DIGITS`` binary digits with zeros behind them: by 6 % at most."""
    zeros = max(0, count.bit_length() - DIGITS)
    return count >> zeros << zeros


def _left(device: torch.device) -> int:
    """Bytes that nobody has, or that torch keeps for us."""
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]
