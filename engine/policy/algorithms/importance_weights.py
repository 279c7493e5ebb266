"""For the gap between the policy that generated and the one that is trained: the same weights, in another engine and data type."""

from torch import Tensor

from engine.policy.algorithms.losses import LOG_RATIO_LIMIT


def truncated_weights(old_logprobs: Tensor, rollout_logprobs: Tensor, limit: float) -> Tensor:
    """``min(exp(old - rollout), limit)`` [N], without gradient: importance weights of the tokens, with bounded variance.

    Truncated importance sampling (Ionides 2008), for this gap in "Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training" (Yao et al. 2025).
    """
    gap = (old_logprobs.detach() - rollout_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return gap.exp().clamp(max=limit)
