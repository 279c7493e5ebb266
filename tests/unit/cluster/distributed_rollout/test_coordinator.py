from collections import defaultdict
from collections.abc import Callable

import pytest

from engine.cluster.distributed_rollout.coordinator import (
    ActivitySpan,
    Command,
    Forecast,
    HaltTraining,
    Phase,
    RolloutStarted,
    RolloutState,
    StartTraining,
    TrainingStarted,
    TrainingStopped,
    WorkerAhead,
    WorkerDone,
    WorkerMessage,
    advance,
)

EPOCH = 3


def play(state: RolloutState, *events: tuple[float, WorkerMessage]) -> tuple[RolloutState, list[list[Command]]]:
    commands = []
    for now, event in events:
        state, sent = advance(state, event, now)
        commands.append(sent)
    return state, commands


def rollout(workers: int, min_idle_workers: int = 1) -> RolloutState:
    return advance(RolloutState(min_idle_workers), RolloutStarted(EPOCH, tuple(range(workers))), 10.0)[0]


def by_worker(state: RolloutState) -> dict[int, list[tuple[str, float, float]]]:
    spans = defaultdict[int, list[tuple[str, float, float]]](list)
    for span in state.spans:
        spans[span.worker].append((span.activity, span.start, span.end))
    return dict(spans)


def test_a_rollout_from_start_to_end() -> None:
    state, commands = play(
        rollout(3),
        (12.0, WorkerDone(EPOCH, 1)),
        (12.5, TrainingStarted(EPOCH, 1)),
        (14.0, WorkerDone(EPOCH, 2)),
        (14.5, TrainingStarted(EPOCH, 2)),
        (20.0, WorkerDone(EPOCH, 0)),
        (20.1, TrainingStopped(EPOCH, 1)),
    )
    assert commands == [
        [StartTraining(1, EPOCH)],
        [],
        [StartTraining(2, EPOCH)],
        [],
        [HaltTraining(1, EPOCH), HaltTraining(2, EPOCH)],
        [],
    ]
    assert state.complete
    assert state.training == (2,)
    assert by_worker(state) == {
        0: [("BUSY", 10.0, 20.0)],
        1: [("BUSY", 10.0, 12.0), ("IDLE", 12.0, 12.5), ("TRAINING", 12.5, 20.0)],
        2: [("BUSY", 10.0, 14.0), ("IDLE", 14.0, 14.5), ("TRAINING", 14.5, 20.0)],
    }


def test_training_waits_for_enough_idle_workers() -> None:
    _, commands = play(
        rollout(4, min_idle_workers=2), (11.0, WorkerDone(EPOCH, 2)), (12.0, WorkerDone(EPOCH, 0)), (13.0, WorkerDone(EPOCH, 3))
    )
    assert commands == [
        [],
        [StartTraining(2, EPOCH), StartTraining(0, EPOCH)],
        [StartTraining(3, EPOCH)],
    ]


def test_training_waits_for_a_tail_that_is_worth_its_set_up() -> None:
    state = advance(RolloutState(least_remaining=4.0), RolloutStarted(EPOCH, (0, 1, 2)), 10.0)[0]
    assert state.doubtful == ()
    state, commands = play(state, (11.0, WorkerDone(EPOCH, 0)), (11.1, Forecast(EPOCH, 1, 3.9)))
    assert state.doubtful == (1, 2)
    assert state.undecided, "nothing is known of worker 2"
    assert commands == [[], []]
    assert not advance(state, Forecast(EPOCH, 2, 3.9), 11.1)[0].undecided
    state, commands = play(state, (11.2, Forecast(EPOCH, 2, 4.0)), (12.0, WorkerDone(EPOCH, 1)))
    assert commands == [[StartTraining(0, EPOCH)], []], "worker 2 is 3.2 seconds from its end by now"
    assert state.doubtful == (2,)


def test_a_forecast_is_of_a_busy_worker_in_this_rollout() -> None:
    state = advance(RolloutState(least_remaining=4.0), RolloutStarted(EPOCH, (0, 1)), 10.0)[0]
    state, _ = play(state, (11.0, WorkerDone(EPOCH, 0)))
    for event in (Forecast(EPOCH - 1, 1, 9.0), Forecast(EPOCH, 0, 9.0), Forecast(EPOCH, 7, 9.0)):
        assert advance(state, event, 11.0) == (state, [])


def test_the_next_rollout_asks_for_as_long_a_tail() -> None:
    state = advance(RolloutState(2, 4.0), RolloutStarted(EPOCH, (0, 1)), 10.0)[0]
    assert (state.min_idle_workers, state.least_remaining) == (2, 4.0)


def test_nobody_trains_when_all_finish_at_once() -> None:
    _, commands = play(rollout(1), (11.0, WorkerDone(EPOCH, 0)))
    assert commands == [[]]


def test_a_worker_that_stopped_by_itself_is_not_started_again() -> None:
    state, commands = play(
        rollout(2),
        (11.0, WorkerDone(EPOCH, 0)),
        (12.0, TrainingStarted(EPOCH, 0)),
        (13.0, TrainingStopped(EPOCH, 0)),
        (14.0, TrainingStarted(EPOCH, 0)),
    )
    assert commands[1:] == [[], [], []]
    assert state.workers[0].phase is Phase.STOPPED
    assert state.spans[-1] == ActivitySpan(0, "TRAINING", 12.0, 13.0)


def test_who_goes_on_with_later_steps_is_busy_and_nobody_waits_for_it() -> None:
    """It trains nothing, and is none of the idle ones that training waits for."""
    state, commands = play(rollout(3), (11.0, WorkerAhead(EPOCH, 0)), (12.0, WorkerDone(EPOCH, 1)), (15.0, WorkerAhead(EPOCH, 2)))
    assert commands == [[], [StartTraining(1, EPOCH)], [HaltTraining(1, EPOCH)]]
    assert by_worker(state) == {0: [("BUSY", 10.0, 15.0)], 1: [("BUSY", 10.0, 12.0), ("IDLE", 12.0, 15.0)], 2: [("BUSY", 10.0, 15.0)]}
    assert state.complete
    _, commands = play(rollout(3, min_idle_workers=2), (11.0, WorkerAhead(EPOCH, 0)), (12.0, WorkerDone(EPOCH, 1)))
    assert commands == [[], []]


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
@pytest.mark.parametrize("message", [WorkerDone, TrainingStopped])
def test_messages_of_other_epochs_change_nothing(message: Callable[[int, int], WorkerMessage], epoch: int) -> None:
    state = rollout(2)
    assert advance(state, message(epoch, 0), 11.0) == (state, [])


def test_a_worker_that_trains_for_an_old_rollout_is_halted_in_that_rollout() -> None:
    state = rollout(2)
    assert advance(state, TrainingStarted(EPOCH - 1, 0), 11.0) == (state, [HaltTraining(0, EPOCH - 1)])


def test_a_worker_that_starts_after_the_end_is_halted_again() -> None:
    state, commands = play(rollout(2), (11.0, WorkerDone(EPOCH, 0)), (12.0, WorkerDone(EPOCH, 1)), (12.5, TrainingStarted(EPOCH, 0)))
    assert commands[1:] == [[HaltTraining(0, EPOCH)], [HaltTraining(0, EPOCH)]]
    assert by_worker(state)[0] == [("BUSY", 10.0, 11.0), ("IDLE", 11.0, 12.0)]


def test_an_old_or_doubled_start_does_not_reset_the_rollout() -> None:
    state, _ = play(rollout(2), (11.0, WorkerDone(EPOCH, 0)))
    for epoch in (EPOCH - 1, EPOCH):
        assert advance(state, RolloutStarted(epoch, (0, 1)), 12.0) == (state, [])


def test_a_new_rollout_halts_those_that_still_train() -> None:
    state, _ = play(rollout(2), (11.0, WorkerDone(EPOCH, 0)), (12.0, TrainingStarted(EPOCH, 0)))
    state, commands = advance(state, RolloutStarted(EPOCH + 1, (0, 1)), 13.0)
    assert commands == [HaltTraining(0, EPOCH)]
    assert (state.epoch, state.spans, state.complete) == (EPOCH + 1, (), False)
