"""Policy losses: pure functions from per-token log-probabilities to per-token losses. The learner takes their mean over tokens."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import AlgorithmConfig

# Beyond e^20 a ratio says only "very far"; without the limit exp overflows and the unused branch of min() turns gradients into NaN.
LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class TokenLoss:
    """Per token, all [N]: the loss; the KL estimate; whether the clip cut off the token's policy gradient."""

    loss: Tensor
    kl: Tensor
    clipped: Tensor


PolicyLoss = Callable[[Tensor, Tensor, Tensor | None, Tensor, AlgorithmConfig], TokenLoss]


def clipped_ratio(
    logprobs: Tensor, old_logprobs: Tensor, reference_logprobs: Tensor | None, advantages: Tensor, config: AlgorithmConfig
) -> TokenLoss:
    """``-min(ratio A, clip(ratio, 1 - low, 1 + high) A) + kl_coefficient * k3``; all inputs [N], only ``logprobs`` gets a gradient.

    The ratio is PPO's (arXiv 1707.06347) with the asymmetric clip of DAPO (arXiv 2503.14476); k3 is Schulman's estimate of the KL
    to the reference (joschu.net/blog/kl-approx.html), as in GRPO (arXiv 2402.03300). No reference means no KL term.
    """
    ratio = (logprobs - old_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    free = ratio * advantages
    bounded = ratio.clamp(1 - config.clip_low, 1 + config.clip_high) * advantages
    kl = torch.zeros_like(logprobs) if reference_logprobs is None else k3(logprobs, reference_logprobs)
    return TokenLoss(loss=config.kl_coefficient * kl - torch.minimum(free, bounded), kl=kl, clipped=bounded < free)


def k3(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """``exp(d) - d - 1`` with ``d = reference - policy``: never negative, its mean under the policy is KL(policy, reference)."""
    difference = (reference_logprobs - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return difference.exp() - difference - 1


LOSSES: dict[str, PolicyLoss] = {"grpo": clipped_ratio}
