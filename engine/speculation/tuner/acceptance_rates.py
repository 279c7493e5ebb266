"""How many drafted tokens the target accepts: rates by draft position, pooled over batch sizes."""

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
"""Drafts that a guess counts as."""
FOLLOWED = 50
"""Decode steps of a shape after which an observation counts 1/e, if that is sooner than by the memory: drafters change untold, too."""
STALE = 300
"""Decode steps after which a rate that is not observed any more counts 1/e."""
KEPT = 8.0
"""Drafts that the evidence counts as at most, once the weights have changed."""


class AcceptanceRates:
    """Conditional acceptance of a drafted position given that the one before was accepted, as discounted Beta counts.

    The rates belong to a shape: the drafter, and for a tree its top_k and verify. Chains of different depth share them, since a
    position of a chain does not depend on what follows. The guess for a position that was not observed is the one before it. An n-gram
    draft that ends early counts as rejected there.
    """

    def __init__(self, strategies: Sequence[Strategy], config: GoodputConfig) -> None:
        self._names = list(dict.fromkeys(shape(strategy) for strategy in strategies))
        self._arms = {strategy: (self._names.index(shape(strategy)), draft_levels(strategy)) for strategy in strategies}
        self._shape_of = np.array([shape for shape, _ in self._arms.values()])
        self._positions = max((levels for _, levels in self._arms.values()), default=0)
        self._drafted = np.array([[position < levels for position in range(self._positions)] for _, levels in self._arms.values()])
        self._memory, self._widen = config.memory, config.widen
        self._belief: tuple[Array, Array] | None = None
        # [shape, accepted or rejected, position]
        self._counts: Array = np.zeros((len(self._names), 2, self._positions))

    def record(self, strategy: Strategy, accepted: Sequence[int], steps: int) -> None:
        """``accepted`` of each draft, all from ``steps`` decode steps of ``strategy``; what it does not draft only ages."""
        place, levels = self._arms[strategy]
        self._counts *= math.exp(-steps / STALE)
        self._belief = None
        if not levels or not accepted:
            return
        ends = np.bincount(accepted, minlength=levels + 1)
        reached = ends[::-1].cumsum()[::-1]
        seen = np.array([reached[1 : levels + 1], ends[:levels]])
        forgotten = len(accepted) / self._memory + steps / FOLLOWED
        counts = self._counts[place, :, :levels]
        counts *= math.exp(steps / STALE - forgotten)  # these steps were no absence
        counts += -math.expm1(-forgotten) / forgotten * seen

    def widen(self) -> None:
        """New weights: the rates are less certain, but the best guess."""
        total = self._counts.sum(1, keepdims=True)
        self._counts *= np.minimum(self._widen, KEPT / np.maximum(total, KEPT))
        self._belief = None

    def expected(self, strategy: Strategy) -> float:
        """Mean accepted tokens of a draft; 0 for plain decoding."""
        return float(self.belief()[0][list(self._arms).index(strategy)])

    def belief(self) -> tuple[Array, Array]:
        """Of all strategies: mean accepted tokens [A], and how certain they are: the covariance [A, A] of the logs of accepted + 1 (delta
        method)."""
        if self._belief is None:
            self._belief = self._moments()
        return self._belief

    def state(self) -> dict[str, Any]:
        return {name: counts.tolist() for name, counts in zip(self._names, self._counts, strict=True)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over the shapes and positions that both have. Earlier versions kept a long memory and a short one."""
        self._belief = None
        for name, counts in zip(self._names, self._counts, strict=True):
            if name in state:
                saved = np.asarray(state[name])
                saved = (saved[0] if saved.ndim > counts.ndim else saved)[:, : self._positions]
                counts[:, : saved.shape[-1]] = saved

    def _moments(self) -> tuple[Array, Array]:
        mean, variance = self._rates()
        rates = np.where(self._drafted, mean[self._shape_of], 0.0)
        reached = rates.cumprod(1)
        beyond = reached[:, ::-1].cumsum(1)[:, ::-1]
        expected = reached.sum(1)
        slopes = np.where(self._drafted, beyond / mean[self._shape_of], 0.0) / (1 + expected)[:, None]
        same = self._shape_of[:, None] == self._shape_of
        return expected, np.where(same, (slopes * variance[self._shape_of]) @ slopes.T, 0.0)

    def _rates(self) -> tuple[Array, Array]:
        """Mean and variance of each rate, both [S, P]; the mean is never 0 or 1."""
        accepted, total = self._counts[:, 0], self._counts.sum(1)
        mean, before = np.empty_like(total), np.full(len(total), FIRST_GUESS)
        for position in range(self._positions):
            before = mean[:, position] = (accepted[:, position] + PRIOR * before) / (total[:, position] + PRIOR)
        return mean, mean * (1 - mean) / (total + PRIOR + 1)


def shape(strategy: Strategy) -> str:
    """Strategies of one shape are accepted alike."""
    return f"{strategy.drafter} {strategy.top_k} {strategy.verify if strategy.top_k > 1 else 0}"
