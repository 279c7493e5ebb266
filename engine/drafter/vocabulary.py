"""A draft vocabulary: the D of the target's V tokens that a drafter drafts from, as EAGLE-3 (arXiv 2503.01840) keeps it.

The target's head is most of what a draft costs a small model, and few tokens are most of what a task needs. The target verifies with
its whole head, so that nothing is lost. ``ids`` [D], int64 and rising, are the tokens; a file has them as ``d2t`` [D], int64: the
token at a place is place + d2t[place].
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.errors import ModelError

D2T = "d2t"


def offsets(ids: Tensor) -> Tensor:
    """``d2t`` of ``ids``."""
    return ids - torch.arange(len(ids), device=ids.device)


def token_ids(d2t: Tensor) -> Tensor:
    """The tokens of ``d2t``."""
    return d2t + torch.arange(len(d2t), device=d2t.device)


def vocabulary_of(weights: Mapping[str, Tensor]) -> Tensor | None:
    """The tokens that the drafter of ``weights`` drafts from; None: all."""
    return token_ids(weights[D2T]) if D2T in weights else None


def check_vocabulary(ids: Tensor, vocabulary: int) -> None:
    """ModelError unless ``ids`` are a draft vocabulary of a target with so many tokens."""
    if ids.dtype != torch.int64 or ids.dim() != 1 or not len(ids):
        raise ModelError(f"a draft vocabulary ({D2T}) must be int64 numbers [D], but it is {ids.dtype} {list(ids.shape)}")
    if not (ids[1:] > ids[:-1]).all():
        raise ModelError(f"the tokens of the draft vocabulary ({D2T}) must rise, each only once")
    if int(ids[0]) < 0 or int(ids[-1]) >= vocabulary:
        raise ModelError(f"the draft vocabulary ({D2T}) goes from {int(ids[0])} to {int(ids[-1])}, and the target has {vocabulary} tokens")


def same_type(weights: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """``weights`` in ``dtype``, but whole numbers in int64."""
    return {name: weight.to(dtype if weight.is_floating_point() else torch.int64) for name, weight in weights.items()}
