"""The loss of an update as the configuration puts it together: policy loss, correction, KL term, aggregation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config.algorithm import AlgorithmConfig
from engine.models.host_to_device import to_device
from engine.policy.algorithms.kl import KL_ESTIMATORS
from engine.policy.algorithms.losses import Tokens, truncated_weights
from engine.policy.algorithms.registry import policy_loss


@dataclass(frozen=True)
class WeightedLoss:
    """Per token, all [N]: the loss, weighted; the KL estimate, 0 without a reference; whether the policy's gradient was cut off."""

    loss: Tensor
    kl: Tensor
    clipped: Tensor


class Objective:
    """``limit``: the greatest length of a response in tokens. ConfigError if a function given by import path is not there.

    From losses of tokens to the loss of an update, which is a sum of weighted tokens over a count that all workers share:

    | aggregation | loss | source |
    |---|---|---|
    | token_mean | mean over all tokens | DAPO, arXiv 2503.14476, section 3.3 |
    | sequence_mean | mean over responses of the mean over their tokens | GRPO, arXiv 2402.03300, equation 3; GSPO |
    | sequence_sum | mean over responses of the sum over their tokens | REINFORCE, RLOO |
    | fixed_length | the same, divided by the length limit | Dr.GRPO, arXiv 2503.20783, section 3.2 |
    """

    def __init__(self, config: AlgorithmConfig, limit: int) -> None:
        self._config, self._limit = config, limit
        self._policy_loss = policy_loss(config)
        self._kl = KL_ESTIMATORS[config.kl]

    def counts(self, length: int) -> int:
        """What a response of ``length`` tokens counts in the denominator of the loss."""
        return length if self._config.aggregation == "token_mean" else 1

    def __call__(self, tokens: Tokens, rollout_logprobs: Tensor, reference_logprobs: Tensor | None) -> WeightedLoss:
        """The sum of ``loss`` over all tokens of an update, divided by the sum of all responses' ``counts``, is its loss."""
        result = self._policy_loss(tokens, self._config)
        loss = result.loss
        if self._config.rollout_correction:
            loss = loss * truncated_weights(tokens.old_logprobs, rollout_logprobs, self._config.rollout_correction)
        kl = torch.zeros_like(loss) if reference_logprobs is None else self._kl(tokens.logprobs, reference_logprobs)
        if self._config.kl_in_loss:
            loss = loss + self._config.kl_coefficient * kl
        weights = torch.tensor([self._weight(length) for length in tokens.lengths], dtype=loss.dtype)
        weights = to_device(weights.repeat_interleave(torch.tensor(tokens.lengths)), loss.device)
        return WeightedLoss(loss * weights, kl, result.clipped)

    def _weight(self, length: int) -> float:
        """Of each token of a response of ``length`` tokens."""
        return {"sequence_mean": 1.0 / length, "fixed_length": 1.0 / self._limit}.get(self._config.aggregation, 1.0)
