"""The coordinator of spot training (TLT section 3): a pure function of state and event, without a clock or messages of its own.

Every message carries the epoch (RL step) of its rollout. Whatever is stale, doubled, or not in ``TRANSITIONS`` changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import Literal

Activity = Literal["BUSY", "IDLE", "TRAINING", "INFERENCE"]
"""INFERENCE: of responses that are there, while others generate; the coordinator has it as IDLE, see ``with_inference``."""


class Phase(Enum):
    """What the coordinator knows of a worker."""

    BUSY = "generates"
    AHEAD = "generates for later steps"
    IDLE = "waits"
    ORDERED = "was told to train"
    TRAINING = "trains"
    STOPPED = "has trained in this epoch"

    @property
    def activity(self) -> Activity:
        """What users see: whoever neither generates nor trains is IDLE."""
        return "BUSY" if self in (Phase.BUSY, Phase.AHEAD) else "TRAINING" if self is Phase.TRAINING else "IDLE"


@dataclass(frozen=True)
class RolloutStarted:
    """Opens an epoch that is newer than all before; all ``workers`` are BUSY."""

    epoch: int
    workers: tuple[int, ...]


@dataclass(frozen=True)
class WorkerDone:
    """All requests of the worker's share are finished."""

    epoch: int
    worker: int


@dataclass(frozen=True)
class WorkerAhead:
    """The same, and the worker goes on with later steps: nobody waits for it, and it waits for nobody."""

    epoch: int
    worker: int


@dataclass(frozen=True)
class TrainingStarted:
    epoch: int
    worker: int


@dataclass(frozen=True)
class TrainingStopped:
    epoch: int
    worker: int


@dataclass(frozen=True)
class Forecast:
    """The worker is predicted to be done in ``seconds``. To be asked for while the worker is in ``RolloutState.doubtful``."""

    epoch: int
    worker: int
    seconds: float


WorkerMessage = RolloutStarted | WorkerDone | WorkerAhead | Forecast | TrainingStarted | TrainingStopped

TRANSITIONS: Mapping[tuple[Phase, type], Phase] = {
    (Phase.BUSY, WorkerDone): Phase.IDLE,
    (Phase.BUSY, WorkerAhead): Phase.AHEAD,
    (Phase.ORDERED, TrainingStarted): Phase.TRAINING,
    (Phase.ORDERED, TrainingStopped): Phase.STOPPED,
    (Phase.TRAINING, TrainingStopped): Phase.STOPPED,
}


@dataclass(frozen=True)
class StartTraining:
    worker: int
    epoch: int


@dataclass(frozen=True)
class HaltTraining:
    """Harmless for a worker that does not train, or trains in another epoch."""

    worker: int
    epoch: int


Command = StartTraining | HaltTraining


@dataclass(frozen=True)
class ActivitySpan:
    """What a worker did from ``start`` to ``end``, in seconds of the caller's clock."""

    worker: int
    activity: Activity
    start: float
    end: float


@dataclass(frozen=True)
class WorkerState:
    """``ends``: when a BUSY worker is predicted to be done; minus infinity where nothing is known."""

    phase: Phase
    since: float
    ends: float = -inf


@dataclass(frozen=True)
class RolloutState:
    """One rollout. ``spans`` of a worker follow each other without a gap from the start of the rollout to its end; they are all there
    once ``complete``. The loss of a worker ends the whole attempt: see ``engine.cluster.distributed_rollout.driver``.

    Idle workers train once there are ``min_idle_workers`` and some worker is predicted to be BUSY for ``least_remaining`` seconds more:
    a shorter tail is not worth setting up the training. 0 needs no prediction.
    """

    min_idle_workers: int = 1
    least_remaining: float = 0.0
    epoch: int = -1
    workers: Mapping[int, WorkerState] = field(default_factory=dict)
    spans: tuple[ActivitySpan, ...] = ()
    complete: bool = True

    @property
    def training(self) -> tuple[int, ...]:
        """Workers that were told to train and have not said that they stopped."""
        return tuple(number for number, worker in self.workers.items() if worker.phase in (Phase.ORDERED, Phase.TRAINING))

    @property
    def busy(self) -> tuple[int, ...]:
        return tuple(number for number, worker in self.workers.items() if worker.phase is Phase.BUSY)

    @property
    def enough_idle(self) -> bool:
        return sum(worker.phase.activity != "BUSY" for worker in self.workers.values()) >= self.min_idle_workers

    @property
    def doubtful(self) -> tuple[int, ...]:
        """BUSY workers whose forecasts decide whether those that wait shall train; none if nobody waits for that."""
        waiting = any(worker.phase is Phase.IDLE for worker in self.workers.values())
        return self.busy if waiting and self.enough_idle and not self.complete else ()

    @property
    def undecided(self) -> bool:
        """Whether forecasts are still missing that decide whether those that wait shall train."""
        return any(self.workers[number].ends == -inf for number in self.doubtful)

    def worth_it(self, now: float) -> bool:
        """Whether the rest of the tail, as far as it is predicted, is worth the set-up."""
        ends = max((self.workers[number].ends for number in self.busy), default=-inf)
        return self.least_remaining <= 0 or ends - now >= self.least_remaining


def advance(state: RolloutState, event: WorkerMessage, now: float) -> tuple[RolloutState, list[Command]]:
    """The state after ``event``, and the commands to send. ``now`` never falls."""
    if isinstance(event, RolloutStarted):
        return _started(state, event, now) if event.epoch > state.epoch else (state, [])
    if event.epoch != state.epoch:
        # A worker that starts to train for a rollout that is over has missed its halt.
        return state, [HaltTraining(event.worker, event.epoch)] if isinstance(event, TrainingStarted) else []
    worker = state.workers.get(event.worker)
    if worker is None:
        return state, []
    if isinstance(event, Forecast):
        if worker.phase is Phase.BUSY:  # what the others were to bring is known
            state = replace(state, workers={**state.workers, event.worker: replace(worker, ends=now + event.seconds)})
        return _settle(state, now)
    phase = TRANSITIONS.get((worker.phase, type(event)))
    if phase is None:
        return state, []
    state = _moved(state, event.worker, phase, now)
    if state.complete:
        return state, [HaltTraining(event.worker, state.epoch)] if phase is Phase.TRAINING else []
    return _settle(state, now)


def reminders(state: RolloutState) -> list[Command]:
    """What to send again after a while without news: the halts of those who have not said yet that they stopped."""
    return _halts(state) if state.complete else []


def _halts(state: RolloutState) -> list[Command]:
    return [HaltTraining(worker, state.epoch) for worker in state.training]


def _started(state: RolloutState, event: RolloutStarted, now: float) -> tuple[RolloutState, list[Command]]:
    workers = {worker: WorkerState(Phase.BUSY, now) for worker in event.workers}
    fresh = RolloutState(state.min_idle_workers, state.least_remaining, event.epoch, workers, complete=False)
    settled, commands = _settle(fresh, now)
    return settled, _halts(state) + commands


def _settle(state: RolloutState, now: float) -> tuple[RolloutState, list[Command]]:
    """Completes the rollout if no worker is BUSY, else promotes those who wait if they are enough and it is worth it."""
    if state.complete:
        return state, []
    if not state.busy:
        return _completed(state, now)
    return _promoted(state, now) if state.enough_idle and state.worth_it(now) else (state, [])


def _completed(state: RolloutState, now: float) -> tuple[RolloutState, list[Command]]:
    for number in state.workers:
        state = _closed(state, number, now)
    return replace(state, complete=True), _halts(state)


def _promoted(state: RolloutState, now: float) -> tuple[RolloutState, list[Command]]:
    """Tells all who wait to train, who has waited longest first."""
    idle = [number for number, worker in state.workers.items() if worker.phase is Phase.IDLE]
    idle.sort(key=lambda number: state.workers[number].since)
    for number in idle:
        state = _moved(state, number, Phase.ORDERED, now)
    return state, [StartTraining(number, state.epoch) for number in idle]


def _moved(state: RolloutState, number: int, phase: Phase, now: float) -> RolloutState:
    if state.workers[number].phase.activity != phase.activity:
        state = _closed(state, number, now)
    return replace(state, workers={**state.workers, number: replace(state.workers[number], phase=phase)})


def _closed(state: RolloutState, number: int, now: float) -> RolloutState:
    """Ends the worker's span at ``now``; a complete rollout has no spans to add."""
    worker = state.workers[number]
    if state.complete or worker.since == now:
        return state
    span = ActivitySpan(number, worker.phase.activity, worker.since, now)
    workers = {**state.workers, number: replace(worker, since=now)}
    return replace(state, workers=workers, spans=(*state.spans, span))
