"""The layout of a cache, and how many pages it may have."""

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.rollout.native.layout.page_table import PAGE
from engine.rollout.native.layout.pages import Pages


def make_pages(slots: int, capacity: int, like: Tensor, position: int, limit: int | None, beside: int) -> Pages:
    """Room for all that ``slots`` requests of ``capacity`` positions can need, but for no more than ``limit`` positions, nor for more
    than a GPU has bytes left, ``beside`` of which are for other things, at ``position`` bytes each. ModelError if one request alone would
    not fit."""
    page = PAGE
    each = -(-capacity // page)
    most = slots * each if limit is None else min(slots * each, -(-limit // page))
    if like.is_cuda:
        most = min(most, (_left(like.device) - beside) // (page * position) - 1)
    if slots and most < each:
        raise ModelError(
            f"the cache has room for {max(0, most) * page} tokens, and one request may need {capacity}: give it more memory "
            "(rollout.cache_tokens, if it is set), or lower rollout.max_new_tokens"
        )
    return Pages(slots, capacity, max(0, most), like.device, page)


def _left(device: torch.device) -> int:
    """Bytes that nobody has, or that torch keeps for us."""
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]
