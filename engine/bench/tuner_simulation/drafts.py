"""Which drafts are accepted: decided by the text alone, so that all ways to draft meet the same text."""

from dataclasses import dataclass, field
from functools import cache
from math import log2

import numpy as np

from engine.speculation.strategy import Strategy
from engine.speculation.tuner.cost_table import draft_levels

FADES = 0.985
"""Of the chance that a chain's token is accepted, what is left a position later."""
BRANCHES = 0.4
"""A tree's level is right as often as 1 + this * log2(nodes of a level) chains."""


@dataclass(frozen=True)
class Skill:
    """``learned``: how often the learned drafter's first token is accepted. N-grams find a draft at a share ``found`` of places, and a
    share ``repeated`` of its tokens is right."""

    learned: float
    found: float = 0.1
    repeated: float = 0.7

    @cache  # noqa: B019
    def rates(self, strategy: Strategy) -> np.ndarray:
        """Chance of each position [levels] to be accepted if those before it are."""
        levels = draft_levels(strategy)
        if strategy.drafter == "ngram":
            return np.full(levels, self.repeated)
        chain = self.learned * FADES ** np.arange(levels)
        if strategy.top_k <= 1:
            return chain
        branches = 1 + BRANCHES * log2(max(1.0, strategy.verify / strategy.depth))
        tree: np.ndarray = 1 - (1 - chain) ** branches
        return tree

    @cache  # noqa: B019
    def expected(self, strategy: Strategy) -> float:
        """Mean accepted tokens of a draft."""
        reached = float(self.rates(strategy).cumprod().sum())
        return reached * (self.found if strategy.drafter == "ngram" else 1.0)


@dataclass
class Text:
    """How hard each token of ``requests`` responses of up to ``tokens`` tokens is to guess, and where n-grams find something."""

    requests: int
    tokens: int
    rng: np.random.Generator
    hard: np.ndarray = field(init=False)
    lucky: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.requests, self.tokens + 16)
        self.hard, self.lucky = self.rng.random(shape), self.rng.random(shape)

    def accepted(self, strategy: Strategy, skill: Skill, running: np.ndarray, written: np.ndarray) -> np.ndarray:
        """Of one draft for each of the ``running`` requests [B], which have ``written`` tokens [B]."""
        levels = draft_levels(strategy)
        ahead = written[:, None] + np.arange(levels)
        accepted: np.ndarray = (self.hard[running[:, None], ahead] < skill.rates(strategy)).cumprod(1).sum(1)
        return accepted * self.found(skill, running, written) if strategy.drafter == "ngram" else accepted

    def found(self, skill: Skill, running: np.ndarray, written: np.ndarray) -> np.ndarray:
        """Whether [B] n-grams find a draft."""
        found: np.ndarray = self.lucky[running, written] < skill.found
        return found
