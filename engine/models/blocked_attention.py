"""Causal attention in float32 by oneDNN, a block of queries at a time, for long sequences on processors on which torch's own kernel, which
multiplies by MKL, is slow. No more than a block of scores is in memory."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from engine.models.onednn_linear import multiply

BLOCK = 128
"""Positions, of all heads that share a key head: a processor's caches hold their scores."""
FEWEST = 192
"""Positions from which on this is faster."""


def attend_blocked(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """``query`` [B, heads, R, D], of the last positions of ``key`` and ``value`` [B, key heads, T, D]: each sees itself and all before it.
    [B, heads, R, D]"""
    shape = key.shape[:2]
    grouped = torch.unflatten(query, 1, (shape[1], -1)).flatten(0, 1) * scaling
    mixed: Tensor = _Attention.apply(grouped, key.flatten(0, 1), value.flatten(0, 1))  # type: ignore[no-untyped-call]
    return torch.unflatten(mixed, 0, shape).flatten(1, 2)


class _Attention(torch.autograd.Function):
    """``query`` [K, G, R, D], scaled, ``key`` and ``value`` [K, T, D]: [K, G, R, D]."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed = torch.empty_like(query)
        for head, rows, seen in _blocks(query, key):
            block = mixed[head, :, rows]
            block.copy_(multiply(_shares(query[head, :, rows], key[head, :seen]), value[head, :seen].t()).view(block.shape))
        ctx.save_for_backward(query, key, value)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_mixed: Tensor) -> tuple[Tensor, ...]:
        query, key, value = ctx.saved_tensors
        of_query = torch.empty_like(query)
        of_key, of_value = (states.new_zeros(states.mT.shape) for states in (key, value))  # a transposed product is faster here
        for head, rows, seen in _blocks(query, key):
            queries, of_rows = query[head, :, rows], of_mixed[head, :, rows].flatten(0, 1)
            shares = _shares(queries, key[head, :seen])
            of_scores = torch._softmax_backward_data(multiply(of_rows, value[head, :seen]), shares, -1, torch.float32)
            of_query[head, :, rows] = multiply(of_scores, key[head, :seen].t()).view(queries.shape)
            of_key[head, :, :seen] += multiply(queries.flatten(0, 1).t(), of_scores.t())
            of_value[head, :, :seen] += multiply(of_rows.t(), shares.t())
        return of_query, of_key.mT, of_value.mT


def _shares(queries: Tensor, keys: Tensor) -> Tensor:
    """Of ``queries`` [G, R, D], which stand where the last R of the ``keys`` [S, D] do, in these: [G * R, S]."""
    scores, size = multiply(queries.flatten(0, 1), keys), queries.shape[1]
    scores.view(-1, size, len(keys))[:, :, -size:].masked_fill_(_later(size), -torch.inf)
    return scores.softmax(-1)


@cache
def _later(size: int) -> Tensor:
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def _blocks(query: Tensor, key: Tensor) -> Iterator[tuple[int, slice, int]]:
    """A key head, some of the positions, and how many keys the last of these sees."""
    length, before = query.shape[2], key.shape[1] - query.shape[2]
    for head in range(len(key)):
        for start in range(0, length, BLOCK):
            end = min(start + BLOCK, length)
            yield head, slice(start, end), before + end
