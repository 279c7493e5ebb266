"""Workers, and a net between them and the coordinator that loses, delays, doubles and reorders messages both ways."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sizes import examples

from engine.cluster.distributed_rollout.coordinator import (
    Command,
    Forecast,
    HaltTraining,
    Phase,
    RolloutStarted,
    RolloutState,
    TrainingStarted,
    TrainingStopped,
    WorkerDone,
    WorkerMessage,
    advance,
    reminders,
)

WORKERS = 3


@dataclass
class Actor:
    """A worker in its newest rollout: in each it trains once at most, and not after a halt."""

    epoch: int = 0
    generating: bool = True
    training: bool = False
    over: bool = False


class Net(RuleBasedStateMachine):
    """The one thing that is not lost: that a worker is done (the reply to its share)."""

    @initialize(min_idle=st.integers(1, WORKERS), least_remaining=st.sampled_from([0.0, 5.0]))
    def begin(self, min_idle: int, least_remaining: float) -> None:
        self.now = 0.0
        self.state = RolloutState(min_idle, least_remaining)
        self.actors = [Actor() for _ in range(WORKERS)]
        self.to_coordinator: list[WorkerMessage] = []
        self.to_workers: list[Command] = []
        self.hear(RolloutStarted(0, tuple(range(WORKERS))))

    def hear(self, event: WorkerMessage) -> None:
        self.state, commands = advance(self.state, event, self.now)
        self.to_workers += commands

    def obey(self, command: Command) -> None:
        actor = self.actors[command.worker]
        if command.epoch != actor.epoch:
            return
        if isinstance(command, HaltTraining):
            self.stop(command.worker)
        elif not actor.over and not actor.training:
            assert not actor.generating
            actor.training = True
            self.to_coordinator.append(TrainingStarted(command.epoch, command.worker))

    def stop(self, worker: int) -> None:
        """Told again, it says again that it has stopped."""
        actor = self.actors[worker]
        actor.training, actor.over = False, True
        self.to_coordinator.append(TrainingStopped(actor.epoch, worker))

    @rule(worker=st.integers(0, WORKERS - 1), seconds=st.floats(0, 5))
    def finish(self, worker: int, seconds: float) -> None:
        self.now += seconds
        actor = self.actors[worker]
        if actor.generating:
            actor.generating = False
            self.to_coordinator.append(WorkerDone(actor.epoch, worker))

    @rule(worker=st.integers(0, WORKERS - 1), seconds=st.floats(0, 20))
    def predict(self, worker: int, seconds: float) -> None:
        self.to_coordinator.append(Forecast(self.actors[worker].epoch, worker, seconds))

    @rule(worker=st.integers(0, WORKERS - 1))
    def run_out_of_data(self, worker: int) -> None:
        if self.actors[worker].training:
            self.stop(worker)

    @precondition(lambda self: self.to_coordinator)
    @rule(data=st.data(), keep=st.booleans())
    def deliver_event(self, data: st.DataObject, keep: bool) -> None:
        """Any message in flight; kept, it comes again."""
        event = data.draw(st.sampled_from(self.to_coordinator))
        if not keep:
            self.to_coordinator.remove(event)
        self.hear(event)

    @precondition(lambda self: self.to_workers)
    @rule(data=st.data(), keep=st.booleans())
    def deliver_command(self, data: st.DataObject, keep: bool) -> None:
        command = data.draw(st.sampled_from(self.to_workers))
        if not keep:
            self.to_workers.remove(command)
        self.obey(command)

    @precondition(lambda self: self.to_workers)
    @rule(data=st.data())
    def lose_command(self, data: st.DataObject) -> None:
        self.to_workers.remove(data.draw(st.sampled_from(self.to_workers)))

    @precondition(lambda self: any(not isinstance(event, WorkerDone) for event in self.to_coordinator))
    @rule(data=st.data())
    def lose_event(self, data: st.DataObject) -> None:
        light = [event for event in self.to_coordinator if not isinstance(event, WorkerDone)]
        self.to_coordinator.remove(data.draw(st.sampled_from(light)))

    @precondition(lambda self: self.state.complete and not self.state.training)
    @rule()
    def next_rollout(self) -> None:
        """Messages of before are still under way."""
        self.now += 1.0
        epoch = self.state.epoch + 1
        self.hear(RolloutStarted(epoch, tuple(range(WORKERS))))
        self.actors = [Actor(epoch) for _ in range(WORKERS)]

    @invariant()
    def nobody_that_generates_is_taken_for_idle(self) -> None:
        for number, worker in self.state.workers.items():
            if self.actors[number].generating:
                assert worker.phase is Phase.BUSY

    @invariant()
    def spans_are_those_of_the_workers_that_took_part(self) -> None:
        assert all(span.worker in range(WORKERS) and span.start < span.end for span in self.state.spans)

    def teardown(self) -> None:
        """From any state: once all are done and the net delivers, the rollout completes, and nobody trains on."""
        if not hasattr(self, "state"):
            return
        for worker in range(WORKERS):
            self.finish(worker, 1.0)
        self.settle()
        assert self.state.complete
        self.to_workers += reminders(self.state)
        self.settle()
        assert reminders(self.state) == []
        assert not any(actor.training for actor in self.actors)

    def settle(self) -> None:
        while self.to_coordinator or self.to_workers:
            while self.to_coordinator:
                self.hear(self.to_coordinator.pop(0))
            while self.to_workers:
                self.obey(self.to_workers.pop(0))


Net.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestNet = Net.TestCase
