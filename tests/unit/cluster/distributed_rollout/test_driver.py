"""The rollout of two workers whose replies come one after the other, as told."""

from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from engine.cluster.distributed_rollout.coordinator import Phase, RolloutState, WorkerState
from engine.cluster.distributed_rollout.driver import RolloutDriver, neighbours_of
from engine.cluster.ray_session import _isolate
from engine.cluster.shares import RolloutShare
from engine.errors import WorkerLostError
from engine.rollout.interface import Completion, Request, RolloutStatistics, Sampling
from engine.speculation.step_pace import Neighbours

METHODS = ("rollout", "infer", "train_drafter", "halt", "forecast", "complete_group", "beside")


def completion(number: int) -> Completion:
    return Completion(Request(number, number, (1,)), (2,), (-1.0,), "stop", 0, 0)


class Replies:
    """In place of Ray: references are names, which come back in this order."""

    def __init__(self, *order: str) -> None:
        self._order = list(order)
        self.asked: list[str] = []
        self.told: list[tuple[str, Neighbours | None]] = []
        self.more: dict[int, list[Completion]] = {}
        self.ahead: set[int] = set()

    def actor(self, number: int) -> Any:
        def method(name: str) -> Any:
            return SimpleNamespace(remote=lambda *given: self._ask(f"{name} {number}", *given), options=lambda **_: method(name))

        return SimpleNamespace(**{name: method(name) for name in METHODS})

    def _ask(self, reference: str, *given: Any) -> str:
        if reference.startswith("beside"):
            self.told.append((reference, given[1]))
        else:
            self.asked.append(reference)
        return reference

    def wait(self, references: Sequence[str], **_: Any) -> tuple[list[str], list[str]]:
        ready = next(reference for reference in self._order if reference in references)
        self._order.remove(ready)
        return [ready], []

    def get(self, reference: str) -> Any:
        number = int(reference[-1])
        if reference.startswith("rollout"):
            return RolloutShare([completion(number), *self.more.get(number, [])], RolloutStatistics(), 0.0, number in self.ahead)
        return [completion(5)] if reference.startswith("complete_group") else None


@pytest.fixture
def ray_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[Replies], None]:
    """Puts replies in Ray's place."""

    def put(replies: Replies) -> None:
        _isolate()  # ray reads it when it is first imported
        import ray

        monkeypatch.setattr(ray, "wait", replies.wait)
        monkeypatch.setattr(ray, "get", replies.get)

    return put


def test_who_is_done_infers_first_and_trains_then(ray_is: Callable[[Replies], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' last one does not: all share what is left then."""
    replies = Replies("rollout 0", "infer 0", "rollout 1", "train_drafter 0")
    ray_is(replies)
    actors = [replies.actor(number) for number in range(2)]
    driver = RolloutDriver(0, actors, RolloutState(), infer=lambda worker, _: actors[worker].infer.remote())
    activities: list[str] = []
    post = driver._post

    def told(event: Any) -> None:
        activities.append(type(event).__name__)
        post(event)

    monkeypatch.setattr(driver, "_post", told)
    rollout = driver.run([[], []], Sampling(), lambda _: None)
    asked = dict.fromkeys(each for each in replies.asked if not each.startswith("rollout"))  # halts may be repeated
    assert [*asked] == ["infer 0", "train_drafter 0", "halt 0"]
    assert activities == ["RolloutStarted", "WorkerDone", "TrainingStarted", "WorkerDone", "TrainingStopped"]
    assert [completion.request.id for completion in rollout.completions] == [0, 1]
    assert {span.activity for span in rollout.spans if span.worker == 0} >= {"BUSY", "INFERENCE", "TRAINING"}
    assert replies.told == [("beside 1", Neighbours("training", 0))], "inference beside it says nothing of either"


BUSY, IDLE, ORDERED, TRAINING, AHEAD = Phase.BUSY, Phase.IDLE, Phase.ORDERED, Phase.TRAINING, Phase.AHEAD


@pytest.mark.parametrize(
    ("phases", "inferring", "expected"),
    [
        ((BUSY, BUSY), False, None),
        ((BUSY, IDLE), False, Neighbours("waiting", 0)),
        ((BUSY, ORDERED), False, Neighbours("waiting", 0)),
        ((BUSY, IDLE), True, None),
        ((BUSY, BUSY, BUSY, IDLE), False, Neighbours("waiting", 2)),
        ((BUSY, BUSY, TRAINING, IDLE), False, Neighbours("training", 1)),
        ((BUSY, AHEAD, TRAINING), False, None),
        ((IDLE, TRAINING), False, None),
    ],
)
def test_what_is_told_to_who_generates(phases: Sequence[Phase], inferring: bool, expected: Neighbours | None) -> None:
    assert neighbours_of(RolloutState(workers={at: WorkerState(phase, 0.0) for at, phase in enumerate(phases)}), inferring) == expected


def test_who_need_not_train_infers_groups_of_who_still_generates(ray_is: Callable[[Replies], None]) -> None:
    replies = Replies("rollout 0", "infer 0", "complete_group 1", "infer 0", "rollout 1")
    replies.more = {1: [completion(5)]}
    ray_is(replies)
    actors = [replies.actor(number) for number in range(2)]
    begun: list[tuple[int, list[int]]] = []

    def infer(worker: int, completions: Sequence[Completion]) -> Any:
        begun.append((worker, [each.request.group for each in completions]))
        return actors[worker].infer.remote()

    rollout = RolloutDriver(0, actors, RolloutState(min_idle_workers=3), infer=infer).run([[], []], Sampling(), lambda _: None)
    assert begun == [(0, [0]), (0, [5])]
    assert sum(span.activity == "INFERENCE" for span in rollout.spans) == 1, "one group after the other"
    assert [each.request.id for each in rollout.completions] == [0, 1, 5]
    assert replies.told == [("beside 1", Neighbours("waiting", 0)), ("beside 1", None), ("beside 1", Neighbours("waiting", 0))]
    assert not rollout.statistics.alarms


def test_who_goes_on_ahead_hears_that_nobody_waits_for_it_any_more(ray_is: Callable[[Replies], None]) -> None:
    """From then on others learn beside it, though the rollout's last answer has come."""
    replies = Replies("rollout 0", "rollout 1")
    replies.ahead = {1}
    ray_is(replies)
    actors = [replies.actor(number) for number in range(2)]
    RolloutDriver(0, actors, RolloutState(min_idle_workers=3)).run([[], []], Sampling(), lambda _: None, [[], []])
    assert replies.told == [("beside 1", Neighbours("waiting", 0)), ("beside 1", None)]


def test_a_clock_that_is_set_back_makes_no_span_end_before_it_began(
    ray_is: Callable[[Replies], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = Replies("rollout 0", "rollout 1", "train_drafter 0")
    ray_is(replies)
    times = count(1000.0, -10.0)
    monkeypatch.setattr("time.time", lambda: next(times))
    rollout = RolloutDriver(0, [replies.actor(number) for number in range(2)], RolloutState()).run([[], []], Sampling(), lambda _: None)
    assert all(span.start <= span.end for span in rollout.spans)
    assert rollout.seconds("BUSY", "IDLE", "TRAINING") >= 0


def test_what_a_user_can_mend_of_a_rollout_comes_as_it_was_said(ray_is: Callable[[Replies], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray puts the worker's traceback before it."""
    replies = Replies("rollout 0")
    ray_is(replies)
    import ray

    errors: Any = ray.exceptions
    cause = WorkerLostError("SGLang died 3 times in a row; resume from the last checkpoint: out of memory")

    def get(_: str) -> Any:
        raise errors.RayTaskError("Worker.rollout", f"ray::Worker.rollout()\n  File 'x.py', line 1\n{cause}\n", cause).as_instanceof_cause()

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(WorkerLostError) as raised:
        RolloutDriver(0, [replies.actor(0)], RolloutState()).run([[]], Sampling(), lambda _: None)
    assert str(raised.value) == str(cause)
