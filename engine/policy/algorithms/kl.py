"""Schulman's estimates of KL(policy, reference) from samples of the policy (joschu.net/blog/kl-approx.html), per token, all [N].

In the reward each is a penalty by its value. As a term of the loss its *gradient* counts, and only k2's is, on average, that of the KL;
k1's is zero, and k3's that of the reverse direction, small where the policies are close.
"""

from collections.abc import Callable

from torch import Tensor

from engine.policy.algorithms.losses import LOG_RATIO_LIMIT

Estimator = Callable[[Tensor, Tensor], Tensor]


def k1(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """``policy - reference``: unbiased; of a single token it may be negative."""
    return logprobs - reference_logprobs


def k2(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """``(policy - reference)^2 / 2``: biased, low variance."""
    return (logprobs - reference_logprobs).square() / 2


def k3(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """``exp(d) - d - 1`` with ``d = reference - policy``: unbiased and never negative; GRPO's (arXiv 2402.03300, equation 4)."""
    difference = (reference_logprobs - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return difference.exp() - difference - 1


KL_ESTIMATORS: dict[str, Estimator] = {"k1": k1, "k2": k2, "k3": k3}
