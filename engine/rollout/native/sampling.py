"""The law that tokens are drawn from, and the noise that draws them.

A token is the argmax of its log-probability plus Gumbel noise, which draws it from exactly that law. The noise is a function of
(seed, request, position, token) alone, so a response does not depend on the batch it ran in. The drafter guesses with the noise
that the target will use; a guess is kept if it is what the target then draws. What is generated is therefore what plain decoding
generates, token for token, whatever the drafter (Daliri, Musco, Suresh: Coupling without Communication and Drafter-Invariant
Speculative Decoding, 2024). A guess is right with a probability of at least (1 - d) / (1 + d) at total variation distance d.
"""

import math

import torch
from torch import Tensor

from engine.rollout.interface import Sampling


class TokenSampler:
    """Temperature, then top-k, top-p and min-p, as in transformers. Greedy log-probabilities are those of the unmodified law."""

    def __init__(self, sampling: Sampling, vocabulary: int, device: torch.device) -> None:
        self._sampling = sampling
        self._seed = mix(torch.tensor(sampling.seed, device=device))
        self._vocabulary = torch.arange(vocabulary, device=device)

    def noise(self, requests: Tensor, positions: Tensor) -> Tensor:
        """Gumbel noise [n, T, vocabulary] for the tokens at ``positions`` [n, T] of ``requests`` (ids) [n]; none if greedy."""
        if self._sampling.temperature == 0:
            return torch.zeros((), device=positions.device).expand(*positions.shape, len(self._vocabulary))
        keys = mix(mix(self._seed ^ requests)[:, None] ^ positions)
        return gumbel(mix(keys[:, :, None] ^ self._vocabulary))

    def sample(self, logits: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens [...] and their log-probabilities [...] for ``logits`` and ``noise`` [..., vocabulary]."""
        logprobs = torch.log_softmax(self._modify(logits), -1)
        tokens = (logprobs + noise).argmax(-1)
        return tokens, logprobs.gather(-1, tokens[..., None])[..., 0]

    def guess(self, logits: Tensor, noise: Tensor) -> Tensor:
        """The tokens [...] that would be drawn if ``logits`` [..., vocabulary] were the target's."""
        return (self._modify(logits) + noise).argmax(-1)

    def guesses(self, logits: Tensor, noise: Tensor) -> Tensor:
        """How likely each token [..., vocabulary] is to be drawn, as log-probabilities, if the target's logits are ``logits`` but for
        errors that are distributed like Gumbel noise. Greedy: the law at temperature 1."""
        return torch.log_softmax(self._modify(logits) + noise, -1)

    def _modify(self, logits: Tensor) -> Tensor:
        temperature, top_k, top_p = self._sampling.temperature, self._sampling.top_k, self._sampling.top_p
        if temperature == 0:
            return logits
        if temperature != 1:
            logits = logits / temperature
        if 0 < top_k < logits.shape[-1]:
            logits = logits.masked_fill(logits < logits.topk(top_k).values[..., -1:], -torch.inf)
        if top_p < 1:
            ordered, order = logits.sort(-1, descending=True)
            probabilities = ordered.softmax(-1)
            beyond = probabilities.cumsum(-1) - probabilities >= top_p
            logits = logits.masked_fill(beyond.scatter(-1, order, beyond), -torch.inf)
        if self._sampling.min_p > 0:
            highest = logits.max(-1, keepdim=True).values
            logits = logits.masked_fill(logits < highest + math.log(self._sampling.min_p), -torch.inf)
        return logits


def gumbel(bits: Tensor) -> Tensor:
    """Standard Gumbel noise from 64 random bits; float32, precise in the upper tail, where the argmax is decided."""
    uniform = ((bits >> 11) & (2**53 - 1)).float().mul_(2.0**-53).clamp_(2.0**-54, 1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()


def mix(x: Tensor) -> Tensor:
    """splitmix64: a bijection of 64-bit integers in which every input bit changes half of the output bits."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = x.bitwise_xor_((x >> 30) & (2**34 - 1)).mul_(_signed(0xBF58476D1CE4E5B9))
    x = x.bitwise_xor_((x >> 27) & (2**37 - 1)).mul_(_signed(0x94D049BB133111EB))
    return x.bitwise_xor_((x >> 31) & (2**33 - 1))


def _signed(constant: int) -> int:
    return constant - 2**64
