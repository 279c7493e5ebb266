"""Advantages: pure functions from the rewards of a step, [groups, group size], to advantages of the same shape."""

from collections.abc import Callable

import torch
from torch import Tensor

EPSILON = 1e-6


def group_normalised(rewards: Tensor) -> Tensor:
    """GRPO: ``(r - mean) / (std + eps)`` in each group, with the sample standard deviation; 0 where all rewards are equal.

    DeepSeekMath, arXiv 2402.03300, section 4.1.2 (outcome supervision).
    """
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    equal = rewards.amax(dim=1, keepdim=True) == rewards.amin(dim=1, keepdim=True)
    return torch.where(equal, 0.0, centred / (rewards.std(dim=1, keepdim=True) + EPSILON))


ADVANTAGES: dict[str, Callable[[Tensor], Tensor]] = {"grpo": group_normalised}
