"""How many drafted tokens the target accepts: rates by draft position, whatever the batch size."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import GoodputConfig
from engine.speculation.strategy import Strategy
from engine.speculation.tuner.cost_table import draft_levels

Array = NDArray[np.float64]

FIRST_GUESS = 0.5
PRIOR = 2.0
"""Drafts that a guess from elsewhere counts as."""
KEPT = 4.0
"""Drafts that the evidence counts as at most, once the weights have changed."""


class AcceptanceRates:
    """How often a drafted position is accepted, given that the one before was: counts of accepted and rejected drafts, in which old ones
    fade.

    Chains of all depths share them, since a position does not depend on what follows; a tree of each ``top_k`` and ``verify`` has its own.
    Of a position that was not observed the guess is what the drafter's other shapes show there, and what the position before shows.
    """

    def __init__(self, strategies: Sequence[Strategy], config: GoodputConfig) -> None:
        self._shapes = list(dict.fromkeys(map(_shape, strategies)))
        self._arms = {strategy: (self._shapes.index(_shape(strategy)), draft_levels(strategy)) for strategy in strategies}
        self._shape_of, levels = np.array(list(self._arms.values())).T
        self._drafted = np.arange(max(levels)) < levels[:, None]
        self._siblings = np.array([[float(a != b and a.split()[0] == b.split()[0]) for b in self._shapes] for a in self._shapes])
        self._memory, self._widen = config.memory, config.widen
        self._counts: Array = np.zeros((len(self._shapes), 2, max(levels)))  # accepted or rejected

    def record(self, strategy: Strategy, accepted: Sequence[int]) -> None:
        """``accepted`` tokens of each draft."""
        shape, levels = self._arms[strategy]
        if not levels:
            return
        ends = np.bincount(accepted, minlength=levels + 1)
        reached = ends[::-1].cumsum()[::-1]
        kept = math.exp(-len(accepted) / self._memory)
        counts = self._counts[shape, :, :levels]
        counts *= kept
        counts += self._memory * (1 - kept) / len(accepted) * np.array([reached[1 : levels + 1], ends[:levels]])

    def widen(self) -> None:
        """New weights: the rates are less certain, but the best guess."""
        total = self._counts.sum(1, keepdims=True)
        self._counts *= np.minimum(self._widen, KEPT / np.maximum(total, KEPT))

    def expected(self) -> Array:
        """Mean accepted tokens of a draft [A]."""
        return self._accepted(self._means())

    def drawn(self, rng: np.random.Generator) -> Array:
        """The same [A], by rates as they may be: Beta distributed."""
        means, certainty = self._means(), self._counts.sum(1) + PRIOR
        return self._accepted(rng.beta(means * certainty, (1 - means) * certainty))

    def state(self) -> dict[str, Any]:
        return dict(zip(self._shapes, self._counts.tolist(), strict=True))

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over the shapes and positions that both have."""
        for shape, counts in zip(self._shapes, self._counts, strict=True):
            saved = np.asarray(state.get(shape, np.zeros((2, 0))))[..., : counts.shape[1]]
            counts[:, : saved.shape[-1]] = saved if saved.ndim == 2 else saved[0]  # earlier versions had a second, shorter memory

    def _accepted(self, rates: Array) -> Array:
        expected: Array = np.where(self._drafted, rates[self._shape_of], 0.0).cumprod(1).sum(1)
        return expected

    def _means(self) -> Array:
        """Of each rate [shape, position]; never 0 or 1."""
        accepted, total = self._counts[:, 0], self._counts.sum(1)
        others, of_others = self._siblings @ accepted, self._siblings @ total
        rates, before = np.empty_like(accepted), np.full(len(accepted), FIRST_GUESS)
        for position in range(accepted.shape[1]):
            guess = (others[:, position] + before) / (of_others[:, position] + 1)
            before = rates[:, position] = (accepted[:, position] + PRIOR * guess) / (total[:, position] + PRIOR)
        return rates


def _shape(strategy: Strategy) -> str:
    return f"{strategy.drafter} {strategy.top_k} {strategy.verify if strategy.top_k > 1 else 0}"
