"""Any order of true, late, doubled and stale messages: the coordinator stays sound."""

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sizes import examples

from engine.cluster.distributed_rollout.coordinator import (
    TRANSITIONS,
    Forecast,
    Phase,
    RolloutStarted,
    RolloutState,
    StartTraining,
    TrainingStarted,
    TrainingStopped,
    WorkerDone,
    WorkerMessage,
    advance,
)

WORKERS = 4
LEGAL = {(before, after) for (before, _), after in TRANSITIONS.items()} | {(Phase.IDLE, Phase.ORDERED), (Phase.BUSY, Phase.ORDERED)}


class Cluster(RuleBasedStateMachine):
    """Real workers send each message once into a net that may lose, delay and double it."""

    @initialize(min_idle=st.integers(1, WORKERS), least_remaining=st.sampled_from([0.0, 5.0]))
    def begin(self, min_idle: int, least_remaining: float) -> None:
        self.state = RolloutState(min_idle, least_remaining)
        self.now = 0.0
        self.sent: list[WorkerMessage] = []
        self.ordered: set[int] = set()
        self.halted: set[int] = set()
        self.over: set[int] = set()
        self.start(0.5)

    def deliver(self, event: WorkerMessage, delay: float) -> None:
        before = self.state
        self.now += delay
        self.state, commands = advance(self.state, event, self.now)
        if self.state.epoch == before.epoch:
            self.check_transitions(before)
        if self.state.complete and not before.complete:
            self.ended = self.now
        for command in commands:
            if isinstance(command, StartTraining):
                assert command.epoch == self.state.epoch
                assert self.state.worth_it(self.now), "somebody is BUSY for long enough"
                assert self.state.busy
                assert command.worker not in self.ordered, "told twice to train"
                self.ordered.add(command.worker)
            elif command.epoch == self.state.epoch:
                self.halted.add(command.worker)

    def check_transitions(self, before: RolloutState) -> None:
        for number, worker in self.state.workers.items():
            phase = before.workers[number].phase
            assert worker.phase is phase or (phase, worker.phase) in LEGAL
        assert self.state.spans[: len(before.spans)] == before.spans, "what is told stays told"
        assert self.state.complete or not before.complete

    @rule(delay=st.floats(0.001, 10))
    def start(self, delay: float) -> None:
        event = RolloutStarted(self.state.epoch + 1, tuple(range(WORKERS)))
        self.began = self.now + delay
        self.ordered, self.halted, self.over = set(), set(), set()
        self.deliver(event, delay)
        self.sent.append(event)

    @rule(worker=st.integers(0, WORKERS - 1), kind=st.sampled_from([WorkerDone, TrainingStarted, TrainingStopped]), delay=st.floats(0, 10))
    def message(self, worker: int, kind: type, delay: float) -> None:
        """A true message arrives: only what the worker's own history allows."""
        if (kind is WorkerDone) != (worker not in self.over and worker not in self.ordered):
            return
        if kind is WorkerDone:
            self.over.add(worker)
        event = kind(self.state.epoch, worker)
        self.sent.append(event)
        self.deliver(event, delay)

    @rule(worker=st.integers(0, WORKERS - 1), seconds=st.floats(0, 20), delay=st.floats(0, 10))
    def forecast(self, worker: int, seconds: float, delay: float) -> None:
        """At any time, asked for or not, true or not."""
        event = Forecast(self.state.epoch, worker, seconds)
        self.sent.append(event)
        self.deliver(event, delay)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), delay=st.floats(0, 10))
    def repeat(self, data: st.DataObject, delay: float) -> None:
        """An old message comes again, of this epoch or of one before."""
        self.deliver(data.draw(st.sampled_from(self.sent)), delay)

    @rule(epochs=st.integers(1, 3), worker=st.integers(0, WORKERS + 1), kind=st.sampled_from([WorkerDone, TrainingStopped]))
    def stale(self, epochs: int, worker: int, kind: type) -> None:
        before = self.state
        self.deliver(kind(self.state.epoch - epochs, worker), 0.1)
        assert self.state == before

    @invariant()
    def no_deadlock(self) -> None:
        """Once every worker is done, the rollout is complete and all that were told to train were told to halt."""
        busy = [worker for worker in self.state.workers.values() if worker.phase is Phase.BUSY]
        assert self.state.complete == (not busy)
        assert self.over == set(range(WORKERS)) or busy
        if self.state.complete:
            assert set(self.state.training) <= self.halted

    @invariant()
    def spans_add_up(self) -> None:
        """Without a gap from the start of the rollout to its end, and until then to the current span."""
        for worker in range(WORKERS):
            spans = [(span.start, span.end) for span in self.state.spans if span.worker == worker]
            if worker in self.state.workers and not self.state.complete:
                spans.append((self.state.workers[worker].since, self.now))
            end = self.ended if self.state.complete else self.now
            assert sum(stop - start for start, stop in spans) == pytest.approx(end - self.began)
            assert all(start <= stop for start, stop in spans)
            assert all(one[1] == two[0] for one, two in pairwise(spans))

    @invariant()
    def enough_idle_workers_train(self) -> None:
        busy = sum(worker.phase is Phase.BUSY for worker in self.state.workers.values())
        waiting = [worker for worker in self.state.workers.values() if worker.phase is Phase.IDLE]
        if busy and len(self.state.workers) - busy >= self.state.min_idle_workers:
            assert not waiting or not self.state.worth_it(self.now)

    @invariant()
    def who_waits_in_vain_is_asked_about(self) -> None:
        """One forecast of a long rest, of anybody that is to be asked, is enough."""
        for worker in self.state.doubtful:
            after, commands = advance(self.state, Forecast(self.state.epoch, worker, self.state.least_remaining + 1), self.now)
            waiting = {number for number, one in self.state.workers.items() if one.phase is Phase.IDLE}
            assert waiting
            assert {command.worker for command in commands} == waiting
            assert not after.doubtful


Cluster.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
TestCluster = Cluster.TestCase
