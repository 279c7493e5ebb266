"""Who infers which groups while others still generate."""

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine.cluster.distributed_rollout.coordinator import ActivitySpan
from engine.cluster.distributed_rollout.early_stop_on_worker import WorkerEarlyStop
from engine.cluster.distributed_rollout.tail_inference import ASK_EVERY, TailInference, with_inference
from engine.rollout.interface import Completion, Request


def group(number: int) -> list[Completion]:
    return [Completion(Request(2 * number + member, number, (1,)), (2,), (-1.0,), "stop", 0, 0) for member in range(2)]


class Cluster:
    """Workers whose answers are the test's to give; references are numbers. ``begun``: who infers which groups; ``questions``: who was
    asked, and which groups were taken by then."""

    def __init__(self, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[tuple[int, list[int]]] = []
        self.questions: list[tuple[int, set[int]]] = []
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        actors = [SimpleNamespace(complete_group=SimpleNamespace(remote=self._asks(worker))) for worker in range(workers)]
        self.inference = TailInference(3, actors, self._begin, lambda method: method)

    def answer(self, numbers: Sequence[int], idle: set[int]) -> None:
        (reference,) = self.inference.asked
        self.inference.answered(reference, [completion for number in numbers for completion in group(number)], idle)

    def inferred(self) -> int:
        return self.inference.inferred(next(iter(self.inference.inferring)))

    def _asks(self, worker: int) -> Callable[[int, frozenset[int]], int]:
        def ask(step: int, taken: frozenset[int]) -> int:
            assert step == 3
            self.questions.append((worker, set(taken)))
            return len(self.questions) + len(self.begun)

        return ask

    def _begin(self, worker: int, completions: Sequence[Completion]) -> Any:
        self.begun.append((worker, sorted({completion.request.group for completion in completions})))
        return len(self.questions) + len(self.begun)


def test_who_is_through_with_its_own_groups_infers_what_is_complete_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2, monkeypatch)
    cluster.inference.remind(set(), [0, 1])
    cluster.inference.done(1, group(1) + group(3), last=False)
    cluster.inference.remind({1}, [0])
    assert (cluster.begun, cluster.questions) == ([(1, [1, 3])], []), "its own first"
    assert cluster.inferred() == 1
    cluster.inference.remind({1}, [0])
    cluster.inference.remind({1}, [0])
    assert cluster.questions == [(0, {1, 3})], "no question twice before its answer"
    cluster.answer([0], {1})
    assert cluster.begun[1:] == [(1, [0])]
    cluster.inferred()
    cluster.inference.remind({1}, [0])
    assert cluster.questions[1:] == [(0, {0, 1, 3})], "at once, as there may be more"
    cluster.answer([], {1})
    cluster.inference.remind({1}, [0])
    assert len(cluster.questions) == 2
    cluster.now += ASK_EVERY
    cluster.inference.remind({1}, [0])
    assert len(cluster.questions) == 3
    cluster.inference.done(0, group(0) + group(2), last=True)
    cluster.answer([2], set())
    assert len(cluster.begun) == 2, "what the last one has is left to all"


def test_no_group_is_inferred_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(3, monkeypatch)
    cluster.inference.done(2, group(2), last=False)
    cluster.inferred()
    cluster.inference.remind({2}, [0, 1])
    cluster.answer([0], {2})
    cluster.inference.done(0, group(0) + group(3), last=False)
    assert cluster.begun == [(2, [2]), (2, [0]), (0, [3])]
    cluster.inferred()
    cluster.inference.remind({2}, [1])
    cluster.answer([3], {2})  # of who has been asked while it still generated
    assert len(cluster.begun) == 3


def test_who_was_told_to_train_takes_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2, monkeypatch)
    cluster.inference.done(1, group(1), last=False)
    cluster.inferred()
    cluster.inference.remind({1}, [0])
    cluster.answer([0], set())
    assert cluster.begun == [(1, [1])]
    cluster.now += ASK_EVERY
    cluster.inference.remind({1}, [0])
    assert cluster.questions == [(0, {1})] * 2, "nor is it taken"


def test_a_worker_gives_complete_groups_of_the_running_step_only() -> None:
    early_stop = WorkerEarlyStop(lambda: None)
    assert early_stop.complete_group(7, ()) == []
    with early_stop.rollout(7, [completion.request for number in (0, 1, 2) for completion in group(number)]):
        for completion in [*group(0)[:1], *group(1), *group(2)]:
            early_stop.finished(completion)
        assert early_stop.complete_group(7, ()) == group(1)
        assert early_stop.complete_group(7, (1,)) == group(2)
        assert early_stop.complete_group(7, (1, 2)) == early_stop.complete_group(6, ()) == []
    assert early_stop.complete_group(7, ()) == []


def test_inference_takes_the_place_of_waiting_and_of_nothing_else() -> None:
    waits = [ActivitySpan(0, "BUSY", 0.0, 2.0), ActivitySpan(0, "IDLE", 2.0, 6.0), ActivitySpan(0, "TRAINING", 6.0, 9.0)]
    other = [ActivitySpan(1, "BUSY", 0.0, 5.0), ActivitySpan(1, "IDLE", 5.0, 9.0)]
    inferred = [ActivitySpan(0, "INFERENCE", *times) for times in ((1.0, 3.0), (4.0, 5.0), (5.0, 7.0))]
    found = [(span.worker, span.activity, span.start, span.end) for span in with_inference(waits + other, inferred)]
    assert found == [
        (0, "BUSY", 0.0, 2.0),
        (0, "INFERENCE", 2.0, 3.0),
        (0, "IDLE", 3.0, 4.0),
        (0, "INFERENCE", 4.0, 5.0),
        (0, "INFERENCE", 5.0, 6.0),
        (0, "TRAINING", 6.0, 9.0),
        (1, "BUSY", 0.0, 5.0),
        (1, "IDLE", 5.0, 9.0),
    ]


def test_who_still_infers_has_done_so_until_now(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2, monkeypatch)
    monkeypatch.setattr(time, "time", lambda: cluster.now)
    cluster.inference.done(1, group(1), last=False)
    cluster.now = 103.0
    assert cluster.inference.spans() == [ActivitySpan(1, "INFERENCE", 100.0, 103.0)]
    cluster.inferred()
    for begins, ends in ((103.0 + ASK_EVERY / 2, 105.0), (110.0, 111.0)):
        cluster.now = begins
        cluster.inference.remind({1}, [0])
        cluster.answer([int(begins)], {1})
        cluster.now = ends
        cluster.inferred()
    assert cluster.inference.spans() == [ActivitySpan(1, "INFERENCE", 100.0, 105.0), ActivitySpan(1, "INFERENCE", 110.0, 111.0)]
