"""Requests of unequal lengths: attention takes them in parts, with the same bits, where that is worth the calls."""

from itertools import pairwise, product

import pytest
import torch
from native_cases import TREES, RandomTuner, make_engine, make_guessable, make_target, strategies, with_mkl, with_random_tuner

from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.layout import runs as attention_runs
from engine.rollout.native.layout.runs import CALL, runs

HEADS, SIZE = 2, 64
CALL_POSITIONS = CALL // (HEADS * SIZE)


def cost(parts: list[tuple[int, int, int]]) -> int:
    return sum(CALL_POSITIONS + (stop - start) * reach for start, stop, reach in parts)


def test_equal_lengths_are_taken_together() -> None:
    assert runs([512] * 64, HEADS, SIZE) == [(0, 64, 512)]
    assert runs([512, 528, 512], HEADS, SIZE) == [(0, 3, 528)]
    assert runs([64], HEADS, SIZE) == [(0, 1, 64)]


@pytest.mark.parametrize("reaches", [[100, 2000, 100, 110], [900, 30, 1000, 30, 40, 900, 30], [16, 512, 528, 500, 32, 48]])
def test_unequal_lengths_are_taken_in_the_cheapest_parts(reaches: list[int]) -> None:
    n = len(reaches)
    every = []
    for cuts in product((False, True), repeat=n - 1):
        edges = [0, *(place for place, cut in enumerate(cuts, 1) if cut), n]
        every.append([(start, stop, max(reaches[start:stop])) for start, stop in pairwise(edges)])
    found = runs(reaches, HEADS, SIZE)
    assert found in every
    assert cost(found) == min(map(cost, every)) < cost(every[0])


def test_many_are_looked_at_in_turn() -> None:
    parts = runs([2000, *[100] * 39], HEADS, SIZE)
    assert [start for start, _, _ in parts[1:]] == [stop for _, stop, _ in parts[:-1]]
    assert (parts[0], parts[-1][1]) == ((0, 1, 2000), 40)


def test_one_head_and_two_threads_leave_a_thread_idle() -> None:
    """So two requests are better together than each alone, if they differ little."""
    reaches = [900, 500, 100, 100, 100, 100]
    alone = runs(reaches, 1, SIZE)
    torch.set_num_threads(2)
    assert (alone[0], runs(reaches, 1, SIZE)[0]) == ((0, 1, 900), (0, 2, 900))


@with_mkl
@pytest.mark.usefixtures("threads")
def test_responses_have_the_same_bits_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the places where the sums of attention are split; with trees and chains."""
    target = make_target("llama", tie_word_embeddings=False, max_position_embeddings=1024)
    drafter = make_guessable(target)
    requests = [
        Request(each, each, tuple((7 * each + i) % 48 for i in range(length))) for each, length in enumerate((3, 240, 500, 30, 250))
    ]

    def generate(call: int) -> tuple[list[Completion], int]:
        taken = 0

        def counted(*given: object) -> list[tuple[int, int, int]]:
            nonlocal taken
            found = runs(*given)  # type: ignore[arg-type]
            taken += len(found) > 1
            return found

        monkeypatch.setattr(attention_runs, "CALL", call)
        monkeypatch.setattr("engine.rollout.native.kv_cache.runs", counted)
        engine = make_engine(target, drafter, strategies((3, 2, 5), (3, 1, 3)), max_prompt_tokens=500)
        with_random_tuner(engine, RandomTuner(3, more=TREES[1:2]))
        return engine.generate(requests, Sampling(max_new_tokens=24, seed=1)), taken

    (together, never), (apart, often) = generate(2**40), generate(64)
    assert [(each.tokens, each.logprobs) for each in apart] == [(each.tokens, each.logprobs) for each in together]
    assert often > never == 0
