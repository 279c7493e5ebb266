"""Advantages: pure functions from the rewards of a step, [groups, group size], to advantages of the same shape."""

from collections.abc import Callable

from torch import Tensor

EPSILON = 1e-6


def group_normalised(rewards: Tensor) -> Tensor:
    """GRPO: ``(r - mean) / (std + eps)`` in each group, with the sample standard deviation; 0 where all rewards are equal.

    DeepSeekMath, arXiv 2402.03300, section 4.1.2 (outcome supervision). In fp64, where the mean of equal fp32 numbers is exact.
    """
    wide = rewards.double()
    centred = wide - wide.mean(dim=1, keepdim=True)
    return (centred / (wide.std(dim=1, keepdim=True) + EPSILON)).to(rewards.dtype)


ADVANTAGES: dict[str, Callable[[Tensor], Tensor]] = {"grpo": group_normalised}
