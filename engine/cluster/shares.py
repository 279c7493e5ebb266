"""What a rank has done of a step: all that the training loop is told of it."""

from dataclasses import dataclass

from engine.rollout.interface import Completion, LoadedWeights, RolloutStatistics


@dataclass(frozen=True)
class Interrupted:
    """What is there of the responses that nobody waited for, when generation ends. ``discarded_tokens``: that the engine has generated and
    no response has; 0 unless something is wrong."""

    completions: list[Completion]
    discarded_tokens: int


@dataclass(frozen=True)
class LearnShare:
    """The training metrics (global, so equal on every rank), this rank's seconds of it, seconds and bytes of the new weights' way into the
    worker's engine, the checks of them included, the checksum of the policy's weights, what the engine holds after the sync (None of a
    rank that has no engine), how far the target has moved since the drafter was last trained (see ``drift``), and what the new weights
    interrupted."""

    metrics: dict[str, float]
    update_seconds: float
    sync_seconds: float
    sync_bytes: int
    checksum: str
    loaded_weights: LoadedWeights | None
    drift: float
    interrupted: Interrupted | None = None


@dataclass(frozen=True)
class RolloutShare:
    """What one worker generated, some of it perhaps aborted, until ``ended`` (seconds since the epoch). ``goes_on``: it still generates,
    for later steps."""

    completions: list[Completion]
    statistics: RolloutStatistics
    ended: float
    goes_on: bool = False
