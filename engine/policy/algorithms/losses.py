"""Policy losses: pure functions from per-token log-probabilities to per-token losses. What weight a token has in the loss of a step is
``engine.policy.algorithms.objective``'s part, the KL term ``engine.policy.algorithms.kl``'s."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config.algorithm import AlgorithmConfig

# Beyond e^20 a ratio says only "very far"; without the limit exp overflows and the unused branch of min() turns gradients into NaN.
LOG_RATIO_LIMIT = 20.0


@dataclass(frozen=True)
class Tokens:
    """The N response tokens of B whole responses, one response after the other.

    ``logprobs`` under the policy (only these get a gradient), ``old_logprobs`` under the policy that the step began with, and
    ``advantages``: all [N]. ``lengths`` [B], their sum is N.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    lengths: tuple[int, ...]

    @property
    def log_ratios(self) -> Tensor:
        return (self.logprobs - self.old_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


@dataclass(frozen=True)
class TokenLoss:
    """Per token, both [N]: the loss; whether the clip cut off the token's policy gradient."""

    loss: Tensor
    clipped: Tensor


PolicyLoss = Callable[[Tokens, AlgorithmConfig], TokenLoss]


def clipped_ratio(tokens: Tokens, config: AlgorithmConfig) -> TokenLoss:
    """``-min(ratio A, clip(ratio, 1 - low, 1 + high) A)``, the ratio of each token to the old policy.

    PPO, arXiv 1707.06347, with the two limits of DAPO's clip-higher, arXiv 2503.14476, section 3.1.
    """
    return _clipped(tokens.log_ratios.exp(), tokens.advantages, config)


def sequence_ratio(tokens: Tokens, config: AlgorithmConfig) -> TokenLoss:
    """GSPO: the same with one ratio for all tokens of a response, the geometric mean of theirs: ``exp(mean log ratio)``.

    arXiv 2507.18071, equations 5 and 7. Made to go with the aggregation sequence_mean.
    """
    means = [part.mean().expand(len(part)) for part in torch.split(tokens.log_ratios, list(tokens.lengths))]
    return _clipped(torch.cat(means).exp(), tokens.advantages, config)


def clipped_weight(tokens: Tokens, config: AlgorithmConfig) -> TokenLoss:
    """CISPO: ``-stop_gradient(clip(ratio, 1 - low, 1 + high)) A log p``: the weight is clipped, no token loses its gradient.

    MiniMax-M1, arXiv 2506.13585, section 3.1. ``clipped`` marks the tokens whose weight was.
    """
    ratio = tokens.log_ratios.detach().exp()
    weight = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    return TokenLoss(-weight * tokens.advantages * tokens.logprobs, weight != ratio)


def score_function(tokens: Tokens, _: AlgorithmConfig) -> TokenLoss:
    """REINFORCE: ``-A log p``, nothing clipped. Meant for one update a step, on its own policy's responses.

    Williams 1992; without importance weights as in RLOO, arXiv 2402.14740, equation 3.
    """
    loss = -tokens.advantages * tokens.logprobs
    return TokenLoss(loss, torch.zeros_like(loss, dtype=torch.bool))


def _clipped(ratio: Tensor, advantages: Tensor, config: AlgorithmConfig) -> TokenLoss:
    free = ratio * advantages
    bounded = ratio.clamp(1 - config.clip_low, 1 + config.clip_high) * advantages
    return TokenLoss(-torch.minimum(free, bounded), bounded < free)


def truncated_weights(old_logprobs: Tensor, rollout_logprobs: Tensor, limit: float) -> Tensor:
    """``min(exp(old - rollout), limit)`` [N], without gradient: importance weights of the tokens, with bounded variance. They are for the
    gap between the policy that generated and the one that is trained: the same weights, in another engine and data type, or older ones
    where a response was begun in an earlier step.

    Truncated importance sampling (Ionides 2008), for this gap in "Your Efficient RL Framework Secretly Brings You Off-Policy RL
    Training" (Yao et al. 2025).
    """
    gap = (old_logprobs.detach() - rollout_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return gap.exp().clamp(max=limit)


LOSSES: dict[str, PolicyLoss] = {
    "clipped_ratio": clipped_ratio,
    "sequence_ratio": sequence_ratio,
    "clipped_weight": clipped_weight,
    "score_function": score_function,
}
