"""What waits for a data buffer while a generation runs: what the buffer will keep, and no more."""

import random
from collections.abc import Iterable

import pytest
import torch

from engine.drafter.data_buffer import DataBuffer, Entry
from engine.drafter.finished_responses import FinishedResponses
from engine.models.device_to_host import HostCopy
from engine.rollout.interface import Completion, Request

WIDTH, LIMIT = 8, 6000


def response(index: int, tokens: int) -> Completion:
    request = Request(index, index, (index % 7, 5, 9))
    return Completion(request, tuple(range(tokens)), (0.0,) * tokens, "stop", 0, 0)


def features_of(completion: Completion) -> torch.Tensor:
    return torch.randn(2 + len(completion.tokens), WIDTH, generator=torch.Generator().manual_seed(completion.request.id)).bfloat16()


def filled() -> DataBuffer:
    """With responses of an earlier step."""
    buffer = DataBuffer(LIMIT)
    for completion in (response(100 + index, 40) for index in range(4)):
        buffer.add(0, (*completion.request.prompt, *completion.tokens), 3, features_of(completion))
    return buffer


def content(buffer: DataBuffer) -> list[object]:
    return [
        (entry.id, entry.group, entry.step, entry.prompt, entry.window, entry.tokens.tolist(), entry.features.float().tolist())
        for entry in buffer.since(0)
    ]


def taken(entries: Iterable[Entry]) -> int:
    """Bytes of host memory that features take."""
    return sum(entry.features.untyped_storage().nbytes() for entry in entries)


@pytest.mark.parametrize("longest", [20, 90, 400])
def test_a_buffer_gets_what_it_would_keep_of_all_and_no_more_waits_for_it(longest: int) -> None:
    """Responses that all fit, that do not, and that do not in one piece; whichever finishes first."""
    for seed in range(10):
        rng = random.Random(seed)
        completions = [response(index, rng.randint(1, longest)) for index in range(12)]
        expected, ours = filled(), filled()
        for completion in completions:
            expected.add(1, (*completion.request.prompt, *completion.tokens), 3, features_of(completion))
        finished = FinishedResponses(LIMIT, range(12), ours.make_room)
        for completion in rng.sample(completions, 12):
            finished.keep(completion, HostCopy(features_of(completion)))
            waiting = [entry for entries in finished._entries.values() for entry in entries]
            assert taken(waiting) + taken(ours.since(0)) <= LIMIT, "but for those that came last"
        ours.remember(1, finished.take())
        assert content(ours) == content(expected)
        assert (ours.shortened, ours.counters()["next"]) == (expected.shortened, expected.counters()["next"])
        assert finished.take() == []


def test_by_default_they_count_as_they_finish() -> None:
    finished, buffer = FinishedResponses(LIMIT), DataBuffer(LIMIT)
    for index in (3, 1, 2):
        finished.keep(response(index, 10), HostCopy(features_of(response(index, 10))))
    buffer.remember(0, finished.take())
    assert [entry.tokens[0].item() for entry in buffer.since(0)] == [3, 1, 2]
