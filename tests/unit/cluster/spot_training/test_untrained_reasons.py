"""What users are told of a tail in which nobody trained."""

import pytest

from engine.cluster.distributed_rollout.coordinator import (
    Forecast,
    RolloutStarted,
    RolloutState,
    TrainingStarted,
    TrainingStopped,
    WorkerDone,
    WorkerMessage,
    advance,
)
from engine.cluster.spot_training.untrained_reasons import Refusal, untrained_reason


def after(state: RolloutState, *events: tuple[float, WorkerMessage]) -> RolloutState:
    """``state`` after a rollout of two workers that began at 0."""
    for now, event in ((0.0, RolloutStarted(0, (0, 1))), *events):
        state, _ = advance(state, event, now)
    assert state.complete
    return state


def test_nobody_was_idle() -> None:
    ends = (5.0, WorkerDone(0, 0)), (5.0, WorkerDone(0, 1))
    assert untrained_reason(after(RolloutState(), *ends), []) == "no worker was idle"


def test_too_few_were_idle() -> None:
    ends = (5.0, WorkerDone(0, 0)), (6.0, WorkerDone(0, 1))
    assert untrained_reason(after(RolloutState(min_idle_workers=2), *ends), []) == "1 of 2 workers that must be idle were so"


def test_the_tail_was_predicted_too_short() -> None:
    events = (5.0, WorkerDone(0, 0)), (5.1, Forecast(0, 1, 0.4)), (5.5, WorkerDone(0, 1))
    assert untrained_reason(after(RolloutState(least_remaining=0.5), *events), []) == "the tail was predicted too short to set training up"


def test_nobody_had_a_forecast() -> None:
    events = (5.0, WorkerDone(0, 0)), (9.0, WorkerDone(0, 1))
    assert untrained_reason(after(RolloutState(least_remaining=0.5), *events), []) == "nobody could say how long the tail would last"


@pytest.mark.parametrize(
    ("refusal", "reason"), [("no data", "no data left: every response"), ("too late", "the tail was over"), ("failed", "training failed")]
)
def test_a_worker_refused(refusal: Refusal, reason: str) -> None:
    events = (5.0, WorkerDone(0, 0)), (5.0, TrainingStarted(0, 0)), (5.1, TrainingStopped(0, 0)), (9.0, WorkerDone(0, 1))
    assert untrained_reason(after(RolloutState(), *events), [refusal]).startswith(reason)
