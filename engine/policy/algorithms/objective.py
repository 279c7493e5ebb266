"""The loss of an update as the configuration puts it together: policy loss, correction, KL term, aggregation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config.algorithm import AlgorithmConfig
from engine.policy.algorithms import aggregation
from engine.policy.algorithms.importance_weights import truncated_weights
from engine.policy.algorithms.kl import KL_ESTIMATORS
from engine.policy.algorithms.losses import Tokens
from engine.policy.algorithms.registry import policy_loss


@dataclass(frozen=True)
class WeightedLoss:
    """Per token, all [N]: the loss, weighted; the KL estimate, 0 without a reference; whether the policy's gradient was cut off."""

    loss: Tensor
    kl: Tensor
    clipped: Tensor


class Objective:
    """``limit``: the greatest length of a response in tokens. ConfigError if a function given by import path is not there."""

    def __init__(self, config: AlgorithmConfig, limit: int) -> None:
        self._config, self._limit = config, limit
        self._policy_loss = policy_loss(config)
        self._kl = KL_ESTIMATORS[config.kl]

    def counts(self, length: int) -> int:
        """What a response of ``length`` tokens counts in the denominator of the loss."""
        return aggregation.counts(self._config.aggregation, length)

    def __call__(self, tokens: Tokens, rollout_logprobs: Tensor, reference_logprobs: Tensor | None) -> WeightedLoss:
        """The sum of ``loss`` over all tokens of an update, divided by the sum of all responses' ``counts``, is its loss."""
        result = self._policy_loss(tokens, self._config)
        loss = result.loss
        if self._config.rollout_correction:
            loss = loss * truncated_weights(tokens.old_logprobs, rollout_logprobs, self._config.rollout_correction)
        kl = torch.zeros_like(loss) if reference_logprobs is None else self._kl(tokens.logprobs, reference_logprobs)
        if self._config.kl_in_loss:
            loss = loss + self._config.kl_coefficient * kl
        weights = [aggregation.weight(self._config.aggregation, length, self._limit) for length in tokens.lengths]
        return WeightedLoss(loss * _spread(weights, tokens.lengths, loss), kl, result.clipped)


def _spread(values: list[float], lengths: tuple[int, ...], like: Tensor) -> Tensor:
    """[N]: each response's value at all its tokens."""
    return torch.tensor(values, dtype=like.dtype).repeat_interleave(torch.tensor(lengths)).to(like.device)
