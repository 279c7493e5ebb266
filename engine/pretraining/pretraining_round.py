"""What a worker has done in a round of pretraining: all that the training loop is told of it."""

from dataclasses import dataclass, replace

from engine.rollout.interface import Alarm


@dataclass(frozen=True)
class PretrainingRound:
    """One worker's: what it wrote in ``writing`` seconds, with which ``alarms``, and what it trained on; ``loss`` is the mean. ``dropped``:
    whether its data buffer has ever dropped a response."""

    responses: int
    response_tokens: int
    writing: float
    microsteps: int = 0
    tokens: int = 0
    loss: float = 0.0
    alarms: tuple[Alarm, ...] = ()
    dropped: bool = False

    def plus(self, more: "PretrainingRound") -> "PretrainingRound":
        """With what was trained on after it."""
        microsteps = self.microsteps + more.microsteps
        loss = (self.loss * self.microsteps + more.loss * more.microsteps) / max(1, microsteps)
        return replace(self, microsteps=microsteps, tokens=self.tokens + more.tokens, loss=loss)
