"""Draws tokens from the target's law, and guesses what it will draw.

A token wins an exponential race, so it has exactly that law. The noise of the race is a function of (seed, request, position, token)
alone, so a response does not depend on the batch it ran in. The drafter guesses with the noise that the target will use; a guess is
kept if it is what the target then draws. What is generated is therefore what plain decoding generates, token for token, whatever the
drafter (Daliri, Musco, Suresh: Coupling without Communication and Drafter-Invariant Speculative Decoding, 2024). A guess is right with
a probability of at least (1 - d) / (1 + d) at total variation distance d.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor

from engine.rollout.interface import Sampling
from engine.rollout.native.noise import Noise, NoiseRows, mix, token_codes
from engine.rollout.native.nucleus import cut_weights, few, nucleus
from engine.rollout.native.race import Race
from engine.rollout.native.row_chunks import row_chunks
from engine.rollout.native.token_weights import masses, weights_of

Result = tuple[Tensor, Tensor]


class TokenSampler:
    """Temperature, then top-k, top-p and min-p, as in transformers. Greedy log-probabilities are those of the unmodified law. What it
    returns of a row has the same bits on a CPU whatever rows there are besides."""

    def __init__(self, sampling: Sampling, vocabulary: int, device: torch.device) -> None:
        self._sampling = sampling
        self._seed = mix(torch.tensor(sampling.seed, device=device))
        self._vocabulary = token_codes(vocabulary, device)
        self._greedy = sampling.temperature == 0
        self.law = replace(sampling, seed=0, max_new_tokens=0, stop=())
        """Tells samplers apart that draw by different laws."""
        self.keeps_noise = not self._greedy and not few(sampling, vocabulary)
        """Whether it draws with noise for the whole vocabulary, which is kept."""

    def noise(self, requests: Tensor, positions: Tensor, memory: Tensor | None = None) -> Noise:
        """For the tokens at ``positions`` [n, levels] of ``requests`` (ids) [n]. ``memory`` as of Noise."""
        return Noise(self._seed, self._vocabulary, requests, positions, memory)

    def sample(self, logits: Tensor, noise: NoiseRows) -> Result:
        """Tokens [R] and their log-probabilities [R] for ``logits`` [R, vocabulary]."""
        if self._greedy:
            return self.guess(logits, noise), -masses(logits, 1).log()[:, 0]
        return self._race(logits, noise, Race.winners)

    def guess(self, logits: Tensor, noise: NoiseRows) -> Tensor:
        """The tokens [R] that would be drawn if ``logits`` [R, vocabulary], or as many as ``noise`` has, were the target's."""
        return logits.max(-1).indices if self._greedy else self._race(logits, noise, Race.winners, exact=not logits.is_cuda)[0]

    def guesses(self, logits: Tensor, noise: NoiseRows, count: int) -> Result:
        """The ``count`` tokens that are likeliest to be drawn if the target's logits are ``logits`` [R, vocabulary] but for errors that
        are distributed like Gumbel noise, and their log-probabilities, [R, count] each. Greedy: of the law at temperature 1."""
        if self._greedy:
            values, tokens = logits.topk(count, -1)
            return tokens, values - values[:, :1] - masses(logits, 1).log()
        return self._race(logits, noise, lambda race: race.leaders(count), exact=not logits.is_cuda)

    def _race(self, logits: Tensor, noise: NoiseRows, result: Callable[[Race], Result], exact: bool = True) -> Result:
        """``result`` of each row's race. If it need not be ``exact``, only the likeliest tokens run where few are worth to look at: to know
        whether others are left one would have to wait for a GPU."""
        size = few(self._sampling, logits.shape[-1])
        if not size:
            chunks = row_chunks(logits, logits.shape[-1])
            return _joined(result(self._race_of_all(logits[chunk], noise[chunk])) for chunk in chunks)
        results, cut = self._race_of_few(logits, noise, size, result)
        if not exact:
            return results
        rows = (~cut).nonzero()[:, 0]
        if len(rows):
            parts = [rows[chunk] for chunk in row_chunks(rows, logits.shape[-1])]
            again = _joined(result(self._race_of_many(logits[part], noise[part])) for part in parts)
            for each, renewed in zip(results, again, strict=True):
                each[rows] = renewed
        return results

    def _race_of_all(self, logits: Tensor, noise: NoiseRows) -> Race:
        weights = weights_of(logits, self._sampling.temperature)
        return Race(weights, weights / noise.kept())

    def _race_of_few(self, logits: Tensor, noise: NoiseRows, size: int, result: Callable[[Race], Result]) -> tuple[Result, Tensor]:
        """Among the ``size`` likeliest; and the rows [R] where no other tokens are left."""
        parts, cut = [], []
        for chunk in row_chunks(logits, size):
            tokens, weights, done = nucleus(logits[chunk], self._sampling, size)
            parts.append(result(Race(weights, weights / noise[chunk].of(tokens), tokens)))
            cut.append(done)
        return _joined(parts), torch.cat(cut)

    def _race_of_many(self, logits: Tensor, noise: NoiseRows) -> Race:
        weights = cut_weights(logits, self._sampling)
        return Race(weights, weights / noise.of())


def _joined(results: Iterable[Result]) -> Result:
    tokens, logprobs = zip(*results, strict=True)
    return torch.cat(tokens), torch.cat(logprobs)
