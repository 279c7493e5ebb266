"""What a worker's training in a tail comes to: all that the training loop is told of it."""

from dataclasses import dataclass

from engine.drafter.training_report import TrainingReport


@dataclass(frozen=True)
class TrainedSession:
    """Training in one tail. ``set_up``: seconds until its first steps were judged; a shorter tail brings nothing."""

    report: TrainingReport
    set_up: float
