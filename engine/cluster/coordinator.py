"""The coordinator of spot training (TLT section 3): a pure function of state and event, without a clock or messages of its own.

Every message carries the epoch (RL step) of its rollout. Whatever is stale, doubled, or not in ``TRANSITIONS`` changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import Literal

Activity = Literal["BUSY", "IDLE", "TRAINING"]


class Phase(Enum):
    """What the coordinator knows of a worker."""

    BUSY = "generates"
    IDLE = "waits"
    ORDERED = "was told to train"
    TRAINING = "trains"
    STOPPED = "has trained in this epoch"

    @property
    def activity(self) -> Activity:
        """What users see: whoever neither generates nor trains is IDLE."""
        return "BUSY" if self is Phase.BUSY else "TRAINING" if self is Phase.TRAINING else "IDLE"


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
class TrainingStarted:
    epoch: int
    worker: int


@dataclass(frozen=True)
class TrainingStopped:
    epoch: int
    worker: int


@dataclass(frozen=True)
class Forecast:
    """The worker is predicted to be done in ``seconds``. To be asked for while the worker is in ``State.doubtful``."""

    epoch: int
    worker: int
    seconds: float


@dataclass(frozen=True)
class WorkerLost:
    epoch: int
    worker: int


Event = RolloutStarted | WorkerDone | Forecast | TrainingStarted | TrainingStopped | WorkerLost

TRANSITIONS: Mapping[tuple[Phase, type], Phase] = {
    (Phase.BUSY, WorkerDone): Phase.IDLE,
    (Phase.ORDERED, TrainingStarted): Phase.TRAINING,
    (Phase.ORDERED, TrainingStopped): Phase.STOPPED,
    (Phase.TRAINING, TrainingStopped): Phase.STOPPED,
}


@dataclass(frozen=True)
class StartTraining:
    """The ``leader`` sets up the training session, the others join it."""

    worker: int
    epoch: int
    leader: bool


@dataclass(frozen=True)
class HaltTraining:
    """Harmless for a worker that does not train, or trains in another epoch."""

    worker: int
    epoch: int


Command = StartTraining | HaltTraining


@dataclass(frozen=True)
class Span:
    """What a worker did from ``start`` to ``end``, in seconds of the caller's clock."""

    worker: int
    activity: Activity
    start: float
    end: float


@dataclass(frozen=True)
class Worker:
    """``ends``: when a BUSY worker is predicted to be done; minus infinity where nothing is known."""

    phase: Phase
    since: float
    ends: float = -inf


@dataclass(frozen=True)
class State:
    """One rollout. ``spans`` of a worker follow each other without a gap from the start of the rollout to its end (or the
    worker's loss); they are all there once ``complete``.

    Idle workers train once there are ``min_idle_workers`` and some worker is predicted to be BUSY for ``least_rest`` seconds more:
    a shorter tail is not worth setting up the training. 0 needs no prediction.
    """

    min_idle_workers: int = 1
    least_rest: float = 0.0
    epoch: int = -1
    workers: Mapping[int, Worker] = field(default_factory=dict)
    leader: int | None = None
    spans: tuple[Span, ...] = ()
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
        return len(self.workers) - len(self.busy) >= self.min_idle_workers

    @property
    def doubtful(self) -> tuple[int, ...]:
        """BUSY workers whose forecasts decide whether those that wait shall train; none if nobody waits for that."""
        waiting = any(worker.phase is Phase.IDLE for worker in self.workers.values())
        return self.busy if waiting and self.enough_idle and not self.complete else ()

    def worth_it(self, now: float) -> bool:
        """Whether the rest of the tail, as far as it is predicted, is worth the set-up."""
        ends = max((self.workers[number].ends for number in self.busy), default=-inf)
        return self.least_rest <= 0 or ends - now >= self.least_rest


def advance(state: State, event: Event, now: float) -> tuple[State, list[Command]]:
    """The state after ``event``, and the commands to send. ``now`` never falls."""
    if isinstance(event, RolloutStarted):
        return _started(state, event, now) if event.epoch > state.epoch else (state, [])
    if event.epoch != state.epoch:
        return state, _halt_stale(event)
    worker = state.workers.get(event.worker)
    if worker is None:
        return state, []
    if isinstance(event, WorkerLost):
        return _settle(_lost(state, event.worker, now), now)
    if isinstance(event, Forecast):
        return _settle(_forecast(state, event, now), now)
    phase = TRANSITIONS.get((worker.phase, type(event)))
    if phase is None:
        return state, []
    state = _moved(state, event.worker, phase, now)
    if state.complete:
        return state, [HaltTraining(event.worker, state.epoch)] if phase is Phase.TRAINING else []
    return _settle(state, now)


def reminders(state: State) -> list[Command]:
    """What to send again after a while without news: the halts of those who have not said yet that they stopped."""
    return [HaltTraining(worker, state.epoch) for worker in state.training] if state.complete else []


def _started(state: State, event: RolloutStarted, now: float) -> tuple[State, list[Command]]:
    halts: list[Command] = [HaltTraining(worker, state.epoch) for worker in state.training]
    workers = {worker: Worker(Phase.BUSY, now) for worker in event.workers}
    fresh = State(state.min_idle_workers, state.least_rest, event.epoch, workers, complete=False)
    settled, commands = _settle(fresh, now)
    return settled, halts + commands


def _halt_stale(event: Event) -> list[Command]:
    """A worker that starts to train for a rollout that is over has missed its halt."""
    return [HaltTraining(event.worker, event.epoch)] if isinstance(event, TrainingStarted) else []


def _settle(state: State, now: float) -> tuple[State, list[Command]]:
    """Completes the rollout if no worker is BUSY, else promotes those who wait if they are enough and it is worth it."""
    if state.complete:
        return state, []
    if not state.busy:
        return _completed(state, now)
    return _promoted(state, now) if state.enough_idle and state.worth_it(now) else (state, [])


def _completed(state: State, now: float) -> tuple[State, list[Command]]:
    halts: list[Command] = [HaltTraining(worker, state.epoch) for worker in state.training]
    last = (Span(number, worker.phase.activity, worker.since, now) for number, worker in state.workers.items() if worker.since < now)
    workers = {number: replace(worker, since=now) for number, worker in state.workers.items()}
    return replace(state, workers=workers, spans=(*state.spans, *last), complete=True), halts


def _promoted(state: State, now: float) -> tuple[State, list[Command]]:
    """Tells all who wait to train; who has waited longest leads."""
    idle = [number for number, worker in state.workers.items() if worker.phase is Phase.IDLE]
    commands: list[Command] = []
    for number in sorted(idle, key=lambda number: state.workers[number].since):
        if state.leader is None:
            state = replace(state, leader=number)
        commands.append(StartTraining(number, state.epoch, leader=state.leader == number))
        state = _moved(state, number, Phase.ORDERED, now)
    return state, commands


def _moved(state: State, number: int, phase: Phase, now: float) -> State:
    """The worker in its new phase; a leader that stops makes room for the next one."""
    worker = state.workers[number]
    if worker.phase.activity != phase.activity:
        state = _closed(state, number, now)
        worker = state.workers[number]
    workers = {**state.workers, number: replace(worker, phase=phase)}
    leader = None if phase is Phase.STOPPED and state.leader == number else state.leader
    return replace(state, workers=workers, leader=leader)


def _forecast(state: State, event: Forecast, now: float) -> State:
    """Of a BUSY worker only: what the others were to bring is known."""
    worker = state.workers[event.worker]
    if worker.phase is not Phase.BUSY:
        return state
    return replace(state, workers={**state.workers, event.worker: replace(worker, ends=now + event.seconds)})


def _lost(state: State, number: int, now: float) -> State:
    state = _closed(state, number, now)
    workers = {other: worker for other, worker in state.workers.items() if other != number}
    return replace(state, workers=workers, leader=None if state.leader == number else state.leader)


def _closed(state: State, number: int, now: float) -> State:
    """Ends the worker's span at ``now``; a complete rollout has no spans to add."""
    worker = state.workers[number]
    if state.complete or worker.since == now:
        return state
    span = Span(number, worker.phase.activity, worker.since, now)
    workers = {**state.workers, number: replace(worker, since=now)}
    return replace(state, workers=workers, spans=(*state.spans, span))
