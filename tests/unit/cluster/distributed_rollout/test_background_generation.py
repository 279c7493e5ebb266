"""A generation that goes on while nobody waits for it, by an engine that takes a step whenever the test says so."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pytest
import torch

from engine.cluster.distributed_rollout.background_generation import BackgroundGeneration, Generated
from engine.drafter.finished_responses import FinishedResponses
from engine.models.device_to_host import HostCopy
from engine.rollout.interface import Completion, KeepFeatures, PartialResponse, Request, RolloutStatistics, Sampling


class Stepping:
    """Gives every open response a token a step. A prompt says how many it wants; at 13 tokens the engine breaks."""

    def __init__(self) -> None:
        self._steps, self._aborted = threading.Semaphore(0), False
        self._statistics = RolloutStatistics()
        self.lost = 0

    def step(self, count: int = 1) -> None:
        self._steps.release(count)

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_finish: Callable[[Completion], None] | None = None,
        keep: KeepFeatures | None = None,
    ) -> list[Completion]:
        assert on_finish
        assert keep
        assert sampling == Sampling()
        tokens = {request.id: list(request.begun.tokens) for request in requests}
        left = list(requests)
        while left and not self._aborted:
            if not self._steps.acquire(timeout=0.005):
                continue
            for request in left:
                tokens[request.id].append(0)
                if len(tokens[request.id]) == 13:
                    raise RuntimeError("the engine broke")
            self._statistics.tokens += len(left) + self.lost
            done = [request for request in left if len(tokens[request.id]) == request.prompt[0]]
            left = [request for request in left if request not in done]
            for request in done:
                completion = self._completion(request, tokens[request.id], "stop")
                keep(completion, HostCopy(torch.full((len(completion.tokens), 2), request.id)))
                on_finish(completion)
        ends = ["abort" if request in left else "stop" for request in requests]
        return [self._completion(request, tokens[request.id], end) for request, end in zip(requests, ends, strict=True)]

    @staticmethod
    def _completion(request: Request, tokens: list[int], finish: Any) -> Completion:
        return Completion(request, tuple(tokens), (0.0,) * len(tokens), finish, 0, 0)

    def abort(self, requests: Collection[int] | None = None) -> None:
        assert requests is None
        self._aborted = True

    def take_statistics(self) -> RolloutStatistics:
        taken, self._statistics = self._statistics, RolloutStatistics()
        return taken


def request(index: int, wanted: int, begun: int = 0) -> Request:
    return Request(index, index, (wanted,), PartialResponse((0,) * begun, (0.0,) * begun, ((0, begun),)))


@pytest.fixture
def engine() -> Iterator[Stepping]:
    made = Stepping()
    yield made
    made.abort()


def begin(engine: Any, requests: Sequence[Request], awaited: Collection[int], seen: list[int] | None = None) -> BackgroundGeneration:
    found: list[int] = [] if seen is None else seen
    finished = FinishedResponses(2**20)
    return BackgroundGeneration(engine, requests, awaited, Sampling(), lambda completion: found.append(completion.request.id), finished)


def told(generated: Generated) -> tuple[list[int], list[int], int]:
    """Which ended, the features of those of more than one token, and how many tokens there were."""
    ids = [completion.request.id for completion in generated.completions]
    return ids, [int(entry.features[0, 0]) for entries in generated.entries for entry in entries], generated.statistics.tokens


def test_those_that_are_awaited_come_at_once_and_the_others_go_on(engine: Stepping) -> None:
    seen: list[int] = []
    generation = begin(engine, [request(0, 2), request(1, 3), request(2, 1), request(3, 9, begun=4), request(4, 4)], {0, 1}, seen)
    engine.step(3)
    assert told(generation.awaited()) == ([2, 0, 1], [0, 1], 5 + 4 + 3)
    assert (seen, generation.goes_on) == ([0, 1], True)
    engine.step()
    while generation._open > 1:
        threading.Event().wait(0.005)
    late, interrupted = generation.end()
    assert told(late) == ([4], [4], 2)
    assert [(each.request.id, len(each.tokens), each.finish) for each in interrupted.completions] == [
        (2, 1, "stop"),
        (3, 8, "abort"),
        (4, 4, "stop"),
    ]
    assert interrupted.discarded_tokens == 0


def test_of_responses_that_end_in_the_same_step_each_has_its_features(engine: Stepping) -> None:
    generation = begin(engine, [request(0, 2), request(1, 2)], {0})
    engine.step(2)
    assert told(generation.awaited())[:2] == ([0], [0])
    late, _ = generation.end()
    assert told(late)[:2] == ([1], [1])


def test_nothing_goes_on_once_all_is_there(engine: Stepping) -> None:
    generation = begin(engine, [request(0, 1)], {0})
    engine.step()
    generation.awaited()
    assert not generation.goes_on
    assert generation.end()[1].completions == []


def test_where_nothing_is_awaited_nobody_waits(engine: Stepping) -> None:
    generation = begin(engine, [request(7, 5)], ())
    assert told(generation.awaited()) == ([], [], 0)
    _, interrupted = generation.end()
    assert [completion.finish for completion in interrupted.completions] == ["abort"]


def test_what_the_engine_made_and_no_response_has_is_counted(engine: Stepping) -> None:
    engine.lost = 2
    generation = begin(engine, [request(0, 3), request(1, 9)], {0})
    engine.step(3)
    generation.awaited()
    assert generation.end()[1].discarded_tokens == 6


def test_what_fails_is_told_to_whoever_waits(engine: Stepping) -> None:
    generation = begin(engine, [request(0, 2), request(1, 30)], {1})
    engine.step(20)
    with pytest.raises(RuntimeError, match="the engine broke"):
        generation.awaited()


def test_what_fails_when_nobody_waits_is_told_at_the_end(engine: Stepping) -> None:
    generation = begin(engine, [request(0, 2), request(1, 30)], {0})
    engine.step(2)
    generation.awaited()
    engine.step(20)
    generation._whole.exception(timeout=60)
    with pytest.raises(RuntimeError, match="the engine broke"):
        generation.end()
