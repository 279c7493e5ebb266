"""Attention over packed rows in one kernel of a GPU: torch's own FlashAttention of sequences of unequal lengths."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import signature
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from engine.models.host_to_device import to_device

Parts = tuple[tuple[int, tuple[int, ...]], ...]
"""The length of each part of a row, and which parts it sees, the last of them being itself."""
Kernel = Callable[..., Any]
HALVES = (torch.bfloat16, torch.float16)
MOST_HEAD = 256


@dataclass(frozen=True)
class Sequences:
    """Where the S parts begin, and the last one ends, among queries and among keys, both [S + 1], and the longest of either. ``seen`` [K]:
    the rows that the keys are, one part after the other; None: as they stand."""

    queries: Tensor
    keys: Tensor
    longest_query: int
    longest_key: int
    seen: Tensor | None


def takes(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel can compute with them: it has no float32."""
    half = value.dtype in HALVES or torch.is_autocast_enabled(query.device.type)
    return query.is_cuda and half and query.shape[-1] <= MOST_HEAD and query.shape[-1] % 8 == 0


def attend_varlen(
    query: Tensor, key: Tensor, value: Tensor, parts: Parts, scaling: float, window: int | None, kernel: Kernel | None = None
) -> Tensor:
    """Causal attention of ``query`` [1, heads, T, D] to ``key`` and ``value`` [1, key heads, T, D]: each part sees all of the parts that it
    sees but itself, of which it sees what comes before; at most the last ``window`` positions. [1, T, heads, D]"""
    where = sequences(parts, query.device)
    half = value.dtype if value.dtype in HALVES else torch.get_autocast_dtype(query.device.type)
    q, k, v = (each[0].transpose(0, 1).to(half) for each in (query, key, value))
    if where.seen is not None:
        k, v = k.index_select(0, where.seen), v.index_select(0, where.seen)
    attended: Tensor = (kernel or _flash())(
        q,
        k,
        v,
        where.queries,
        where.keys,
        where.longest_query,
        where.longest_key,
        scale=scaling,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=True,
    )
    return attended[None]


@lru_cache(maxsize=8)
def sequences(parts: Parts, device: torch.device) -> Sequences:
    """Made once for all layers."""
    lengths = [length for length, _ in parts]
    starts = [0, *accumulate(lengths)]
    seen = [sum(lengths[part] for part in sees) for _, sees in parts]
    joined = None
    if seen != lengths:
        rows = [torch.arange(starts[part], starts[part + 1]) for _, sees in parts for part in sees]
        joined = to_device(torch.cat(rows), device)
    queries, keys = (to_device(torch.tensor(each, dtype=torch.int32), device) for each in (starts, [0, *accumulate(seen)]))
    return Sequences(queries, keys, max(lengths), max(seen), joined)


@cache
def _flash() -> Kernel:
    """That of torch 2.11 takes fewer heads of keys than of queries without being told."""
    from torch.nn.attention.varlen import varlen_attn

    if "enable_gqa" in signature(varlen_attn).parameters:
        return varlen_attn
    return lambda *given, enable_gqa, **options: varlen_attn(*given, **options)  # noqa: ARG005
