"""Copies of one drafter as one."""

from collections.abc import Sequence

import torch
from torch import Tensor


def merge(states: Sequence[tuple[dict[str, Tensor], int]]) -> dict[str, Tensor]:
    """Local SGD: several workers' copies of one drafter, averaged with their numbers of micro-steps as weights; what is the same in all
    stays to the bit. ValueError if whole numbers, which nobody trains, differ, or if nobody has trained.

    Workers start a session from the same version, so that a worker which trained little pulls little.
    """
    total = sum(microsteps for _, microsteps in states)
    if total == 0:
        raise ValueError("no worker has trained")
    shares = [(weights, microsteps / total) for weights, microsteps in states]
    return {name: _merged(name, [(weights[name], share) for weights, share in shares]) for name in states[0][0]}


def _merged(name: str, copies: Sequence[tuple[Tensor, float]]) -> Tensor:
    first = copies[0][0]
    if all(torch.equal(first, weight) for weight, _ in copies[1:]):
        return first
    if not first.is_floating_point():
        raise ValueError(f"the workers' drafters differ in {name}, which is not trained")
    return sum((weight * share for weight, share in copies), torch.tensor(0.0))
