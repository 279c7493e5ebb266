"""What a session of training made of a drafter."""

from dataclasses import dataclass

from engine.drafter.held_out_evaluation import Judged


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
