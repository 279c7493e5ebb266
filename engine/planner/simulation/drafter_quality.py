"""How well the drafter knows its target: it learns in idle time, and each policy update takes some of that away.

k in [0, 1] is what it knows: 0 as untrained, 1 as calibrated. Its first token is accepted with p = untrained + (first - untrained) * k.
Trained tokens T close the gap to 1 by exp(-T / tokens); an update closes that to the static drafter's k by ``drift``.
"""

from dataclasses import dataclass, replace

import numpy as np

from engine.config import DrafterConfig
from engine.planner.calibration import Acceptance, Learning

UNTRAINED = 0.4
"""Probability that the first token of an untrained drafter is accepted: accept length 1.57 (TLT section 2)."""


@dataclass(frozen=True)
class DrafterQuality:
    known: float
    version: int = 0

    def first(self, acceptance: Acceptance) -> float:
        """Probability that its likeliest first token is accepted."""
        return UNTRAINED + (acceptance.first - UNTRAINED) * self.known

    def trained(self, tokens: float, learning: Learning) -> "DrafterQuality":
        """After that many tokens, published if there were any."""
        if tokens <= 0:
            return self
        return DrafterQuality(1 - (1 - self.known) * float(np.exp(-tokens / learning.tokens)), self.version + 1)

    def drifted(self, acceptance: Acceptance, learning: Learning) -> "DrafterQuality":
        """After a policy update."""
        static = (acceptance.static - UNTRAINED) / (acceptance.first - UNTRAINED)
        return replace(self, known=min(self.known, static + (self.known - static) * (1 - learning.drift)))


def at_the_start(config: DrafterConfig) -> DrafterQuality:
    """A drafter that is given or pretrained knows its target; one from nothing does not."""
    return DrafterQuality(1.0 if config.path is not None or config.pretrain_minutes else 0.0)
