"""When training has the memory of the engine's cache: from made-up bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from engine.cluster.cache_lending import CacheLending, cache_lending
from engine.config import RolloutConfig

MB = 2**20


@dataclass
class Gpu:
    """A GPU of 100 MB whose cache has ``cache`` of them, and as much again as training takes."""

    cache: int
    held: int = 0
    most: int = 0
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.held = self.cache

    def release(self) -> None:
        self.done.append("release")
        self.held -= self.cache

    def resume(self) -> None:
        self.done.append("resume")
        self.held += self.cache

    def free(self) -> int:
        return 100 * MB - self.held

    def used(self) -> int:
        return self.held

    def most_used(self) -> int:
        return self.most

    def forget(self) -> None:
        self.most = self.held

    def train(self, needs: int) -> None:
        self.most = max(self.most, self.held + needs)
        assert self.most <= 100 * MB, "the memory of the GPU ran out"


def steps(gpu: Gpu, *needs: int, rows: Sequence[int] = (), largest: int = 1) -> list[list[str]]:
    """What is done to the cache in each step, whose update needs so much, with a longest row of so many of ``largest`` tokens."""
    lending, seen = CacheLending(gpu, gpu, largest), []
    for each, longest in zip(needs, rows or [largest] * len(needs), strict=True):
        lending.rollout_begins()
        lending.rollout_ended()
        gpu.train(each)
        lending.updated(longest)
        seen.append(gpu.done[:])
        gpu.done.clear()
    return seen


def test_a_cache_beside_which_there_is_room_is_lent_once() -> None:
    assert steps(Gpu(20 * MB), 30 * MB, 30 * MB, 35 * MB, 30 * MB) == [["release"], ["resume"], [], []]


def test_a_cache_that_takes_what_is_left_is_lent_at_each_step() -> None:
    assert steps(Gpu(90 * MB), 30 * MB, 30 * MB, 30 * MB) == [["release"], ["resume", "release"], ["resume", "release"]]


def test_an_update_that_needs_more_than_the_ones_before_has_the_cache_next_time() -> None:
    assert steps(Gpu(20 * MB), 30 * MB, 60 * MB, 60 * MB) == [["release"], ["resume"], ["release"]]


def test_an_update_without_a_row_that_teaches_does_not_tell_what_the_next_one_needs() -> None:
    """As where all responses to each prompt are wrong."""
    assert steps(Gpu(90 * MB), 0, 0, 99 * MB, rows=(0, 0, 8), largest=8) == [["release"], ["resume", "release"], ["resume", "release"]]


def test_longer_rows_than_there_were_need_more() -> None:
    """A cache that leaves 50 MB: rows of a quarter of the greatest length took 20, and those of all of it take 60."""
    lent = ["resume", "release"]
    assert steps(Gpu(50 * MB), 20 * MB, 20 * MB, 60 * MB, 60 * MB, rows=(2, 2, 8, 8), largest=8) == [["release"], lent, lent, lent]
    assert steps(Gpu(20 * MB), 10 * MB, 40 * MB, 40 * MB, rows=(4, 8, 8), largest=8) == [["release"], ["resume"], []]


def test_answers_before_the_first_update_do_not_tell_what_it_needs() -> None:
    gpu = Gpu(90 * MB)
    lending = CacheLending(gpu, gpu)
    for _ in range(2):
        lending.rollout_begins()
        lending.rollout_ended()
    assert gpu.held == 0
    gpu.train(99 * MB)


@pytest.mark.parametrize("after_update", [False, True])
def test_what_a_drafter_took_between_two_rollouts_counts(after_update: bool) -> None:
    """Before the second rollout of a step that is filled up, or behind the update, where it is judged. A cache that leaves 50 MB."""
    gpu = Gpu(50 * MB)
    lending = CacheLending(gpu, gpu)
    for _ in range(2):
        lending.rollout_begins()
        lending.rollout_ended()
        if not after_update:
            gpu.train(60 * MB)
            lending.rollout_begins()
            lending.rollout_ended()
        gpu.train(10 * MB)
        lending.updated(1)
        if after_update:
            gpu.train(60 * MB)


@pytest.mark.parametrize(
    ("rollout", "device", "lent", "measures"),
    [
        ({"engine": "native"}, "cuda", True, True),
        ({"engine": "native"}, "cpu", False, False),
        ({"engine": "sglang"}, "cuda", False, False),
        ({"engine": "sglang", "sglang": {"release_memory": True}}, "cuda", True, False),
    ],
)
def test_which_engines_lend(rollout: dict[str, Any], device: str, lent: bool, measures: bool) -> None:
    """The native one's cache takes all that is left of a GPU. SGLang's has a fixed part, and is asked to lend it."""
    lending = cache_lending(Gpu(0), RolloutConfig.model_validate(rollout), torch.device(device), 2048)
    assert (lending is not None) is lent
    assert lending is None or (lending._memory is not None) is measures
