"""What a session of training made of a drafter, by held-out responses."""

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


@dataclass(frozen=True)
class TrainingReport:
    """One session. ``loss`` is its mean; ``before`` and ``after`` are of the same held-out entries; ``mix_distance`` is that of
    ``DataBuffer``, at the start. ``noise`` is the standard error of ``gain``."""

    microsteps: int
    tokens: int
    loss: float
    before: Judged
    after: Judged
    mix_distance: float
    noise: float = 0.0

    @property
    def gain(self) -> float:
        """Of what is accepted."""
        return self.after.accepted - self.before.accepted

    @property
    def better(self) -> bool:
        """Whether the gain is more than the noise of the held-out responses."""
        return self.gain > self.noise
