"""How good a drafter is, by held-out responses, and whether one is better than another beyond their noise."""

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

LOOK_AHEAD = 4
"""Drafts of the chains that a drafter is judged by."""


class Judged(NamedTuple):
    """A drafter on held-out responses, by ``HeldOutEvaluation.accepted``, ``agreement``, ``top3`` and ``parts``."""

    accepted: float
    top1: float = 0.0
    top3: float = 0.0
    parts: tuple[tuple[float, float], ...] = ()


UNJUDGED = Judged(-inf)
"""By nobody, for lack of time."""


@dataclass(frozen=True)
class HeldOutEvaluation:
    """Means over ``positions`` held-out response positions, 0 if there are none.

    ``agreement``: share where drafter and target have the same top token, and ``top3`` where the target's is among the drafter's three
    best; ``acceptance``: the most with which a drafted token can be accepted when sampling at temperature 1, see ``recipe.acceptance``.
    ``accepted``: of the drafts of chains of ``LOOK_AHEAD``, one from each position, the share that can be expected to be accepted by
    that, each only if those before it were. ``parts``: the two sums that this is the ratio of, for each ``SEGMENT`` of positions: drafts
    that are expected to be accepted, and drafts.
    """

    agreement: float
    top3: float
    acceptance: float
    accepted: float
    positions: int
    parts: tuple[tuple[float, float], ...] = ()

    @property
    def judged(self) -> Judged:
        return Judged(self.accepted, self.agreement, self.top3, self.parts)


def gain_noise(before: Judged, after: Judged) -> float:
    """Standard error of the gain in ``accepted`` of two drafters that were judged on the same parts of responses: that of a ratio of sums
    over parts (Cochran, Sampling Techniques, section 6). 0 where there are too few to tell, or they are not the same."""
    pairs = [(new - old, drafts) for (old, drafts), (new, _) in zip(before.parts, after.parts, strict=False) if drafts]
    if len(pairs) < 2 or len(before.parts) != len(after.parts):
        return 0.0
    drafts = sum(count for _, count in pairs)
    gain = sum(more for more, _ in pairs) / drafts
    spread = sum((more - gain * count) ** 2 for more, count in pairs) * len(pairs) / (len(pairs) - 1)
    return float(spread**0.5 / drafts)
