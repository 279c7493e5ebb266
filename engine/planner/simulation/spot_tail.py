"""The tail of a simulated rollout: the engine's own coordinator says who waits and who trains the drafter."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from engine.cluster.distributed_rollout import coordinator
from engine.cluster.distributed_rollout.coordinator import ActivitySpan, RolloutState, StartTraining

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tail:
    """``spans`` as of ``RolloutState``; ``trained`` seconds of each worker that trained, by worker."""

    spans: tuple[ActivitySpan, ...]
    trained: dict[int, float]

    def seconds(self, *activities: str) -> float:
        """Worker seconds spent in any of ``activities``."""
        return sum(span.end - span.start for span in self.spans if span.activity in activities)


def tail(done: Array, conditions: RolloutState) -> Tail:
    """``done`` [W]: seconds after which each worker is done with its share. Its forecasts are right, and all of them are asked for that
    matter: that of the worker that is busy longest."""
    last = int(done.argmax())
    state, _ = coordinator.advance(conditions, coordinator.RolloutStarted(0, tuple(range(len(done)))), 0.0)
    for worker in np.argsort(done, kind="stable").tolist():
        now = float(done[worker])
        state = _told(state, coordinator.WorkerDone(0, worker), now)
        if not state.complete and state.workers[last].ends == -inf and state.doubtful:
            state = _told(state, coordinator.Forecast(0, last, float(done[last]) - now), now)
    trained = {span.worker: span.end - span.start for span in state.spans if span.activity == "TRAINING"}
    return Tail(state.spans, trained)


def _told(state: RolloutState, event: coordinator.WorkerMessage, now: float) -> RolloutState:
    """``event``, and that those who are told to train do so at once."""
    state, commands = coordinator.advance(state, event, now)
    for command in commands:
        if isinstance(command, StartTraining):
            state, _ = coordinator.advance(state, coordinator.TrainingStarted(0, command.worker), now)
    return state
