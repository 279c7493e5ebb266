"""Attention to keys and values that are not trained, all of which every query sees: no more than a block of scores is in memory, and the
gradients are the queries' alone."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SCORES, SCORES_ON_GPU = 2**20, 2**26
"""Of a block; a processor's caches hold those of the first."""


def attend_past(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """``query`` [B, heads, R, D], ``key`` and ``value`` [B, heads, P, D], to what is taken of the values, [B, heads, R, D], and the
    logarithm of the sum of the exponentials of all scores, in float32, [B, heads, R]: with that, other attention can join it."""
    if torch.is_autocast_enabled(query.device.type):  # which ends before the gradients are computed
        query = query.to(torch.get_autocast_dtype(query.device.type))
    mixed, mass = _PastAttention.apply(query, key.to(query.dtype), value.to(query.dtype), scaling)  # type: ignore[no-untyped-call]
    return mixed, mass


class _PastAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
        mixed, mass = torch.empty_like(query), query.new_empty(query.shape[:-1], dtype=torch.float32)
        for rows in _blocks(query, key):
            scores = _scores(query[:, :, rows], key, scaling)
            most = scores.amax(-1, keepdim=True)
            weights = scores.sub_(most).exp_()
            total = weights.sum(-1, keepdim=True)
            mixed[:, :, rows] = (weights.to(value.dtype) @ value) / total
            mass[:, :, rows] = (most + total.log()).squeeze(-1)
        ctx.save_for_backward(query, key, value, mixed, mass)
        ctx.scaling = scaling
        return mixed, mass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_mixed: Tensor, of_mass: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mixed, mass = ctx.saved_tensors
        gradient = torch.empty_like(query)
        shift = of_mass - (of_mixed * mixed).sum(-1)
        for rows in _blocks(query, key):
            weights = _scores(query[:, :, rows], key, ctx.scaling).sub_(mass[:, :, rows, None]).exp_()
            slope = (of_mixed[:, :, rows] @ value.mT).float().add_(shift[:, :, rows, None])
            gradient[:, :, rows] = (weights.mul_(slope).to(key.dtype) @ key) * ctx.scaling
        return gradient, None, None, None


def _scores(query: Tensor, key: Tensor, scaling: float) -> Tensor:
    return (query @ key.mT).float().mul_(scaling)


def _blocks(query: Tensor, key: Tensor) -> Iterator[slice]:
    """Of a query's rows."""
    size = max(1, (SCORES_ON_GPU if query.is_cuda else SCORES) // key[..., 0].numel())
    for start in range(0, query.shape[2], size):
        yield slice(start, start + size)
