"""The probabilities of tokens but for their normaliser."""

import torch
from torch import Tensor

from engine.rollout.native.row_chunks import row_chunks


def weights_of(logits: Tensor, temperature: float) -> Tensor:
    """exp(``logits`` / temperature) [R, vocabulary], of which the largest is 1."""
    return exponential(scaled(logits, temperature))


def masses(logits: Tensor, temperature: float) -> Tensor:
    """The sums of ``weights_of``, [R, 1]."""
    chunks = row_chunks(logits, logits.shape[-1])
    return torch.cat([weights_of(logits[chunk], temperature).sum(-1, keepdim=True) for chunk in chunks])


def scaled(logits: Tensor, temperature: float) -> Tensor:
    return logits if temperature == 1 else logits / temperature


def exponential(values: Tensor) -> Tensor:
    """exp(``values``) [R, K], of which the largest is 1."""
    return (values - values.amax(-1, keepdim=True)).exp_()
