"""The tokens that top-k, top-p and min-p leave of a law. Few are left of most rows, and then the likeliest few tokens are all that is
looked at."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from engine.rollout.interface import Sampling
from engine.rollout.native.token_weights import exponential, masses, scaled

FEW = 128
COLUMN = 16
ONE = 0x3F800000
"""The bits of 1.0: floats from 0 to 1 are in the order of their bits."""


class Nucleus(NamedTuple):
    """The likeliest ``tokens`` [R, K] of each row, best first, and ``weights`` [R, K] in proportion to probability, 0 for those that were
    cut. ``cut`` [R]: where the last of them was; no token beyond them is left there."""

    tokens: Tensor
    weights: Tensor
    cut: Tensor


def few(sampling: Sampling, vocabulary: int) -> int:
    """How many of the likeliest tokens are worth to look at alone; 0 if nothing is cut."""
    if sampling.top_p == 1 and sampling.min_p == 0 and not 0 < sampling.top_k < vocabulary:
        return 0
    return min(max(FEW, 2 * sampling.top_k), vocabulary)


def nucleus(logits: Tensor, sampling: Sampling, size: int) -> Nucleus:
    """Of ``logits`` [R, vocabulary] the ``size`` likeliest tokens, after temperature, top-k, top-p and min-p."""
    values, tokens = _largest(logits, size)
    values = scaled(values, sampling.temperature)
    weights = exponential(values)
    top_k = min(sampling.top_k, size)
    left = values >= (values[:, top_k - 1, None] if top_k > 0 else -torch.inf)
    weights *= left
    beyond = left[:, -1]  # tokens as likely as the kth, which count for top-p, too
    if sampling.top_p < 1:
        mass = weights.cumsum(-1)
        total = mass[:, -1:] if top_k > 0 else masses(logits, sampling.temperature)
        left = left & (mass - weights < sampling.top_p * total)
    if sampling.min_p > 0:
        left = left & (values >= values[:, :1] + math.log(sampling.min_p))
    if top_k <= 0:
        beyond = left[:, -1]
    return Nucleus(tokens, weights * left, ~beyond | (size == logits.shape[-1]))


def _largest(logits: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """As ``topk``, sooner. The vocabulary is a table, and the ``size`` columns with the largest maxima have them all."""
    columns = logits.shape[-1] // COLUMN
    if columns < 4 * size:
        return logits.topk(size, -1)
    table = logits[:, : COLUMN * columns].view(-1, COLUMN, columns)
    best = table.amax(1).topk(size, -1, sorted=False).indices
    inside = torch.arange(0, COLUMN * columns, columns, device=logits.device)[:, None] + best[:, None]
    rest = torch.arange(COLUMN * columns, logits.shape[-1], device=logits.device).expand(len(logits), -1)
    tokens = torch.cat((inside.flatten(1), rest), 1)
    values, places = logits.gather(1, tokens).topk(size, -1)
    return values, tokens.gather(1, places)


def cut_weights(logits: Tensor, sampling: Sampling) -> Tensor:
    """``weights_of`` ``logits`` [R, vocabulary] after top-k, top-p and min-p: 0 for those that were cut."""
    values = scaled(logits, sampling.temperature)
    weights = exponential(values)
    if 0 < sampling.top_k < logits.shape[-1]:
        weights *= values >= values.topk(sampling.top_k, -1).values[:, -1:]
    if sampling.top_p < 1:
        _cut_top_p(weights, sampling.top_p)
    if sampling.min_p > 0:
        weights *= values >= values.amax(-1, keepdim=True) + math.log(sampling.min_p)
    return weights


def _cut_top_p(weights: Tensor, top_p: float) -> None:
    """In place. Bisection, much faster than sorting, finds the least weight that is left: the least one above which there is not enough
    mass. Of several tokens of that weight the first are left, until there is enough."""
    enough = top_p * weights.sum(-1, keepdim=True)
    low, high = (torch.full_like(enough, bits, dtype=torch.int32) for bits in (0, ONE))
    larger = torch.empty_like(weights)
    for _ in range(ONE.bit_length()):
        middle = low + ((high - low) >> 1)
        suffices = _mass_above(weights, middle, larger) >= enough
        low, high = torch.where(suffices, middle, low), torch.where(suffices, high, middle)
    least = high.view(torch.float32)
    equal = weights == least
    there = _mass_above(weights, high, larger)
    weights *= weights > least
    weights += least * (equal & (there + (equal.cumsum(-1) - 1) * least < enough))


def _mass_above(weights: Tensor, bits: Tensor, larger: Tensor) -> Tensor:
    """Of the weights that are larger than the float of ``bits`` [R, 1]; ``larger`` is overwritten."""
    return torch.gt(weights, bits.view(torch.float32), out=larger).mul_(weights).sum(-1, keepdim=True)
