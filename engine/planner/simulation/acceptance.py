"""How many drafted tokens are accepted, by strategy and position.

The likeliest draft of the first level is accepted with probability p, each further level with ``decay`` of the one before. A level of m
branches misses (1 - p) * m ** -breadth of the time: a tree that verifies v nodes over n levels has v / n a level on average.
"""

from engine.planner.calibration import Acceptance
from engine.speculation.strategy import OFF, Strategy
from engine.speculation.tuner.cost_table import draft_levels


def rates(strategy: Strategy, acceptance: Acceptance, first: float) -> list[float]:
    """By level: the probability that it is accepted, given that those before were. ``first``: p of the learned drafter."""
    levels = draft_levels(strategy)
    if strategy.drafter == "ngram":
        return [acceptance.ngram * (acceptance.ngram_found if level == 0 else 1.0) for level in range(levels)]
    branches = min(strategy.top_k, max(1.0, strategy.verify / max(levels, 1))) if strategy.top_k > 1 else 1.0
    return [1 - (1 - first * acceptance.decay**level) * branches**-acceptance.breadth for level in range(levels)]


def expected(found: list[float]) -> float:
    """Mean accepted tokens of a draft whose levels are accepted with these probabilities."""
    total, reached = 0.0, 1.0
    for rate in found:
        reached *= rate
        total += reached
    return total


def accepted_tokens(strategy: Strategy, acceptance: Acceptance, first: float) -> float:
    """Mean accepted tokens of a draft; 0 for plain decoding."""
    return 0.0 if strategy == OFF else expected(rates(strategy, acceptance, first))
