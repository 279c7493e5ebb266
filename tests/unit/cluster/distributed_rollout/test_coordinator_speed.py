"""A reply of the coordinator, with 256 workers: the state advanced, and the commands on their way."""

import time
from collections.abc import Iterator

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

WORKERS = 256
REPLY_SECONDS = 0.01


def a_rollout(epoch: int) -> Iterator[WorkerMessage]:
    """Each worker is done, starts to train, and stops at the end."""
    yield RolloutStarted(epoch, tuple(range(WORKERS)))
    for worker in range(WORKERS):
        yield Forecast(epoch, WORKERS - 1, 60.0)
        yield WorkerDone(epoch, worker)
        yield TrainingStarted(epoch, worker)
    for worker in range(WORKERS):
        yield TrainingStopped(epoch, worker)


@pytest.mark.parametrize("min_idle", [1, WORKERS - 1], ids=["one by one", "all at once"])
def test_every_reply_takes_less_than_ten_milliseconds(min_idle: int) -> None:
    """The slowest reply of a rollout, in the best of three: the rest is the machine's."""
    slowest = []
    for epoch in range(3):
        state, dispatched, worst = RolloutState(min_idle, 0.5), 0, 0.0
        for now, event in enumerate(a_rollout(epoch)):
            began = time.process_time()
            state, commands = advance(state, event, now / 100)
            dispatched += len(commands)
            worst = max(worst, time.process_time() - began)
        assert state.complete
        assert dispatched == 2 * (WORKERS - 1), "all but the last one were told to train, and to halt"
        slowest.append(worst)
    assert min(slowest) < REPLY_SECONDS
