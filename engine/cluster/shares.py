"""What a rank has done of a step: all that the training loop is told of it."""

from dataclasses import dataclass

from engine.rollout.interface import Completion, LoadedWeights, RolloutStatistics


@dataclass(frozen=True)
class LearnShare:
    """The training metrics (global, so equal on every rank), this rank's seconds of it, seconds and bytes of the new weights' way into the
    worker's engine, the checks of them included, the checksum of the policy's weights, what the engine holds after the sync (None of a
    rank that has no engine), and how far the target has moved since the drafter was last trained (see ``drift``)."""

    metrics: dict[str, float]
    update_seconds: float
    sync_seconds: float
    sync_bytes: int
    checksum: str
    loaded_weights: LoadedWeights | None
    drift: float


@dataclass(frozen=True)
class RolloutShare:
    """What one worker generated, some of it perhaps aborted, until ``ended`` (seconds since the epoch)."""

    completions: list[Completion]
    statistics: RolloutStatistics
    ended: float
