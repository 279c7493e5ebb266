"""Counting complete groups over the workers, and ending their rollouts early."""

from itertools import count
from typing import Any

import pytest

from engine.cluster.distributed_rollout.early_stop import EarlyStop
from engine.cluster.distributed_rollout.early_stop_on_worker import WorkerEarlyStop
from engine.cluster.distributed_rollout.request_assignment import assign_requests
from engine.rollout.interface import Completion, Finish, Request


def request(number: int, group: int) -> Request:
    return Request(number, group, (1,))


def completion(number: int, group: int, finish: Finish = "stop") -> Completion:
    return Completion(request(number, group), (2,), (-1.0,), finish, 0, 0)


def test_a_worker_counts_complete_groups_and_aborts_the_running_step_only() -> None:
    aborted: list[str] = []
    early_stop = WorkerEarlyStop(lambda: aborted.append("now"))
    early_stop.stop_early(7)
    with early_stop.rollout(7, [request(0, 0), request(1, 0), request(2, 1)]):
        early_stop.finished(completion(0, 0))
        early_stop.finished(completion(2, 1))
        assert (early_stop.complete(7), early_stop.complete(6)) == (1, 0)
        early_stop.stop_early(6)
        assert aborted == []
        early_stop.stop_early(7)
    early_stop.stop_early(7)
    assert (aborted, early_stop.complete(7)) == (["now"], 0)


class Actor:
    """Remembers what it was told; answers are the test's to give."""

    def __init__(self, numbers: "count[int]") -> None:
        self.told: list[tuple[str, int]] = []
        self._numbers = numbers

    def __getattr__(self, method: str) -> Any:
        return lambda step: self._call(method, step)

    def _call(self, method: str, step: int) -> int:
        self.told.append((method, step))
        return next(self._numbers)


class Beside:
    """As ``control`` of a Ray actor's method."""

    def __init__(self, method: Any) -> None:
        self.remote = method


def test_enough_complete_groups_end_the_rollout_and_reminders_are_repeated() -> None:
    numbers = count()
    actors = [Actor(numbers), Actor(numbers), Actor(numbers)]
    stop = EarlyStop(5, actors, 4, Beside)
    stop.remind([0, 1, 2])
    stop.remind([0, 1, 2])
    assert [actor.told for actor in actors] == [[("complete_groups", 5)]] * 3, "no question twice before its answer"
    stop.answered(0, 1)
    stop.answered(2, 1)
    stop.done(1, [completion(0, 0), completion(1, 0, "abort"), completion(2, 1)])
    assert not stop.reached
    stop.remind([0, 2])
    stop.answered(3, 2)
    assert stop.reached
    for _ in range(2):
        stop.remind([0, 2])
    assert actors[0].told[-2:] == actors[2].told[-2:] == [("stop_early", 5)] * 2
    assert len(actors[1].told) == 1


def test_groups_go_round_or_are_shared_out_evenly_longest_first() -> None:
    requests = [request(2 * group + member, group) for group in range(4) for member in range(2)]
    assert [[each.group for each in share] for share in assign_requests(requests, 2)] == [[0, 0, 2, 2], [1, 1, 3, 3]]
    expected = [10.0, 20.0, 5.0, 5.0, 100.0, 50.0, 60.0, 90.0]
    shared = assign_requests(requests, 2, expected)
    assert [[each.id for each in share] for share in shared] == [[4, 5, 1, 0], [7, 6, 2, 3]]
    assert assign_requests(requests[:2], 2, expected[:2]) == [[requests[1], requests[0]], []]


@pytest.mark.parametrize("expected", [None, [10.0, 10.0, 20.0, 400.0, 50.0, 20.0]])
def test_what_nobody_waits_for_does_not_change_where_the_rest_goes(expected: list[float] | None) -> None:
    requests = [request(group, group) for group in range(6)]
    alone = assign_requests(requests[:3], 2, expected and expected[:3])
    shared = assign_requests(requests, 2, expected, ahead={3, 4, 5})
    assert [[each for each in share if each.group < 3] for share in shared] == alone
    assert sorted(each.group for share in shared for each in share) == [*range(6)]
    if expected:  # those who have least to do
        assert [[each.group for each in share if each.group >= 3] for share in shared] == [[3], [4, 5]]
