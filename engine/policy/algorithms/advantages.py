"""Advantages: pure functions from the rewards of a step, [groups, group size], to advantages of the same shape.

All compute in fp64, where the mean of equal fp32 numbers is exact: a group of equal rewards teaches exactly nothing.
"""

from collections.abc import Callable

from torch import Tensor

EPSILON = 1e-6

Advantage = Callable[[Tensor], Tensor]


def group_normalised(rewards: Tensor) -> Tensor:
    """GRPO: ``(r - mean) / (std + eps)`` in each group, with the sample standard deviation; 0 where all rewards are equal.

    DeepSeekMath, arXiv 2402.03300, section 4.1.2 (outcome supervision).
    """
    wide = rewards.double()
    return (_centred(wide) / (wide.std(dim=1, keepdim=True) + EPSILON)).to(rewards.dtype)


def group_centred(rewards: Tensor) -> Tensor:
    """Dr.GRPO: ``r - mean`` in each group. Without the division, easy and hard prompts weigh no more than others.

    "Understanding R1-Zero-Like Training", arXiv 2503.20783, section 3.2.
    """
    return _centred(rewards.double()).to(rewards.dtype)


def leave_one_out(rewards: Tensor) -> Tensor:
    """RLOO: ``r_i - mean of the others' r`` in each group of k, which is ``k / (k - 1) * (r_i - mean)``: an unbiased baseline.

    "Back to Basics", arXiv 2402.14740, section 3.3.
    """
    size = rewards.shape[1]
    return (_centred(rewards.double()) * (size / (size - 1))).to(rewards.dtype)


def batch_normalised(rewards: Tensor) -> Tensor:
    """REINFORCE++: ``(r - mean) / (std + eps)`` over the whole step; groups play no part, so that one may have equal rewards and teach.

    arXiv 2501.03262, section 3. The paper normalises over tokens; here each response counts once, whatever its length.
    """
    wide = rewards.double()
    return ((wide - wide.mean()) / (wide.std() + EPSILON)).to(rewards.dtype)


def group_centred_batch_normalised(rewards: Tensor) -> Tensor:
    """REINFORCE++-baseline: ``r - mean`` in each group, then divided by the standard deviation of these over the whole step.

    arXiv 2501.03262, section 3, the variant for several responses a prompt.
    """
    centred = _centred(rewards.double())
    return (centred / (centred.std() + EPSILON)).to(rewards.dtype)


def _centred(wide: Tensor) -> Tensor:
    return wide - wide.mean(dim=1, keepdim=True)


ADVANTAGES: dict[str, Advantage] = {
    "group_normalised": group_normalised,
    "group_centred": group_centred,
    "leave_one_out": leave_one_out,
    "batch_normalised": batch_normalised,
    "group_centred_batch_normalised": group_centred_batch_normalised,
}
