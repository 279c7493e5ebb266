"""How long a drafter is trained before a run, and at what learning rate. Pure: whoever trains tells the time.

The rate rises, stays, and falls to zero at the end (a warm-up, stable, decay schedule). Where held-out drafts no longer gain, the fall
begins early, so that training ends by itself.
"""

from dataclasses import dataclass, replace

WARM_UP = 0.02
DECAY = 0.3
"""Shares of the time spent on rise and fall."""
EARLY = 0.8
TRAINING = 0.5
"""Of a round's time of writing: longer training would teach the same responses by heart, where new ones are worth more."""


@dataclass(frozen=True)
class PretrainingSchedule:
    """``limit`` seconds at most, of which ``spent`` are over. ``best`` is what was accepted on held-out responses when that last rose by
    ``least_gain``, ``flat`` rounds ago. ``falls_from``: seconds from which on the rate falls early."""

    limit: float
    least_gain: float = 0.002
    patience: int = 4
    spent: float = 0.0
    best: float = 0.0
    flat: int = 0
    falls_from: float | None = None

    @property
    def fall(self) -> float:
        """When the rate begins to fall."""
        return (1 - DECAY) * self.limit if self.falls_from is None else self.falls_from

    @property
    def end(self) -> float:
        return self.limit if self.falls_from is None else min(self.limit, self.falls_from / (1 - DECAY))

    @property
    def done(self) -> bool:
        return self.spent >= self.end

    def early(self, seconds: float) -> bool:
        """Whether a drafter knows too little yet to learn from its own features: a step with one pass teaches as much for less."""
        return seconds < EARLY * self.end

    def rate(self, seconds: float) -> float:
        """The learning rate after ``seconds``, as a share of its largest."""
        rise = min(1.0, seconds / (WARM_UP * self.limit)) if self.limit else 1.0
        fall = (self.end - seconds) / max(self.end - self.fall, 1e-9)
        return max(0.0, min(rise, fall, 1.0))

    def after(self, spent: float, accepted: float) -> "PretrainingSchedule":
        """Once a round has ended at ``spent`` seconds, with ``accepted`` on held-out responses."""
        gained = accepted >= self.best + self.least_gain
        moved = replace(self, spent=spent, best=accepted if gained else self.best, flat=0 if gained else self.flat + 1)
        if moved.flat >= self.patience and spent < self.fall:
            return replace(moved, falls_from=spent)
        return moved

    def lasting(self, end: float) -> "PretrainingSchedule":
        """With an end at ``end`` seconds, which is later than it was."""
        falls_from = None if self.falls_from is None else (1 - DECAY) * end
        return replace(self, limit=max(self.limit, end), falls_from=falls_from)
