from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise

import pytest
import torch

from engine.drafter.data_buffer import HELD_OUT_EVERY, DataBuffer, Entry, enough_bytes, group_of, length_distance, lengths, most_bytes
from engine.drafter.packing import cut

WIDTH, PROMPT = 4, 2
unique = count()


def add(buffer: DataBuffer, step: int, *lengths: int, prompt: int | None = None, held_out: bool = False) -> None:
    """Responses of these lengths, each to a prompt of its own if none is given; the first of a buffer is held out in any case."""
    for length in lengths:
        first = next(number for number in unique if in_held_out_group(number) == held_out) if prompt is None else prompt
        tokens = [first, *range(1, PROMPT + length)]
        buffer.add(step, tokens, PROMPT, torch.randn(len(tokens) - 1, WIDTH))


def in_held_out_group(first: int) -> bool:
    return group_of(torch.tensor([first, *range(1, PROMPT)])) % HELD_OUT_EVERY == 0


class NotLookedThrough(deque[Entry]):
    def __iter__(self) -> Iterator[Entry]:
        pytest.fail("looked through all entries")


def bytes_of(length: int) -> int:
    return (PROMPT + length) * 8 + (PROMPT + length - 1) * 2 * WIDTH


def mixed(buffer: DataBuffer) -> list[tuple[int, int]]:
    return sorted((entry.step, entry.response) for entry in buffer.mix())


def test_oldest_are_dropped_first_to_hold_the_bound() -> None:
    buffer = DataBuffer(bytes_of(10) + bytes_of(20) + bytes_of(30))
    add(buffer, 0, 10, 20, 30)
    assert len(buffer) == 3
    add(buffer, 1, 15)
    assert buffer.bytes == bytes_of(30) + bytes_of(15) <= buffer.limit
    assert buffer.shortened is None


def test_a_response_comes_without_a_look_at_all_that_are_there() -> None:
    """There may be a hundred thousand, and as many come."""
    buffer, held_out = DataBuffer(4 * bytes_of(10)), []
    buffer._entries = NotLookedThrough()
    for _ in range(12):
        add(buffer, 0, 10)
        held_out.append(buffer._entries[-1].held_out)
    assert [number for number, held in enumerate(held_out) if held] == [0, 5, 10], "the next one is once the last one is dropped"


@pytest.mark.parametrize(("room", "starts"), [(32, [970]), (200, [0, 468, 936]), (5000, [0, 24_168, 48_337])])
def test_of_a_response_that_is_larger_than_half_of_the_buffer_windows_spread_over_it_are_kept(room: int, starts: list[int]) -> None:
    tokens = 1002 if room < 1000 else 50_003
    buffer = DataBuffer(2 * room * (8 + 2 * WIDTH))
    add(buffer, 0, 10, tokens - PROMPT, prompt=7)
    add(buffer, 1, 2 * tokens, prompt=8)
    first, second = ([entry for entry in buffer.since(1) if entry.step == step] for step in (0, 1))
    size = room // len(starts)
    assert buffer.bytes <= buffer.limit
    assert [entry.first for entry in first] == starts
    assert [entry.tokens[-1].item() for entry in first] == [start + size - 1 for start in starts], "the last one is the end"
    assert [entry.prompt for entry in first] == [PROMPT if start == 0 else 0 for start in starts]
    for entry in (*first, *second):
        assert (len(entry.tokens), len(entry.features)) == (size, size - 1)
        assert entry.held_out == (True if entry.step == 0 else in_held_out_group(8)), "the whole prompt decides"
    assert buffer.shortened == (tokens, size * len(starts))
    assert lengths(buffer.since(1)) == [tokens - PROMPT, 2 * tokens]
    restored = DataBuffer(buffer.limit)
    restored.restore(buffer.counters(), buffer.since(0))
    assert [(entry.id, entry.group, entry.window) for entry in restored.since(0)] == [
        (entry.id, entry.group, entry.window) for entry in buffer.since(0)
    ]
    smaller = DataBuffer(buffer.limit // 20)
    smaller.restore(buffer.counters(), buffer.since(0))
    (last,) = smaller.since(second[-1].id)
    assert last.first + len(last.tokens) == PROMPT + 2 * tokens


def test_windows_of_a_response_to_a_long_prompt_begin_where_it_does() -> None:
    buffer = DataBuffer(2 * 300 * (8 + 2 * WIDTH))
    buffer.add(0, range(5000), 4000, torch.zeros(4999, WIDTH))
    found = [(entry.first, entry.prompt, len(entry.tokens)) for entry in buffer.since(0)]
    assert found == [(3950, 50, 100), (4425, 0, 100), (4900, 0, 100)]


@pytest.mark.parametrize("prompt", [10, 900, 910, 925, 975, 998])
def test_each_window_has_something_of_the_response(prompt: int) -> None:
    """One without would be new to training for ever, as nothing of it is trained on."""
    buffer = DataBuffer(2 * 300 * (8 + 2 * WIDTH))
    buffer.add(0, range(1000), prompt, torch.zeros(999, WIDTH))
    windows = buffer.since(0)
    assert all(cut(window, 32) for window in windows)
    assert windows[0].first <= max(0, prompt - 50), "with something of the prompt"
    assert sum(len(window.tokens) for window in windows) == 300
    assert windows[-1].first + len(windows[-1].tokens) == 1000


def test_the_mix_goes_by_whole_lengths() -> None:
    """Of a step that is partly here only, one response was too long to be kept whole."""
    buffer = DataBuffer(2 * 300 * (8 + 2 * WIDTH))
    add(buffer, 0, 5)
    add(buffer, 1, 1000, prompt=next(number for number in range(100) if not in_held_out_group(number)))
    add(buffer, 2, 200)
    assert [(entry.step, entry.first) for entry in buffer.mix()] == [(2, 0), (1, 0), (1, 451), (1, 902)]
    assert buffer.mix_distance() == 0.5


def test_a_partial_step_is_completed_by_the_long_responses_of_the_step_before() -> None:
    buffer = DataBuffer(2**20)
    add(buffer, 0, 90, 90)
    add(buffer, 1, 10, 50, 80, 20, 99)
    add(buffer, 2, 12, 30)
    add(buffer, 2, 5, held_out=True)
    assert mixed(buffer) == [(1, 50), (1, 80), (1, 99), (2, 12), (2, 30)]
    add(buffer, 2, 98)
    assert mixed(buffer) == [(1, 99), (2, 12), (2, 30), (2, 98)]


def test_small_steps_are_made_up_for_by_the_youngest_other_responses() -> None:
    buffer = DataBuffer(10**6, least_tokens=100)
    add(buffer, 0, 5)  # held out
    add(buffer, 0, 60, 61)
    add(buffer, 1, 30, 10)
    add(buffer, 2, 40)
    assert mixed(buffer) == [(0, 61), (1, 10), (1, 30), (2, 40)]
    add(buffer, 3, 99)
    assert mixed(buffer) == [(3, 99)]


def test_of_long_prompts_counts_what_training_reads() -> None:
    buffer = DataBuffer(10**7, least_tokens=2500)
    for index in range(33):
        buffer.add(index, [index, *range(9009)], 9000, torch.zeros(9009, WIDTH))
    assert [len(chosen) for chosen in (buffer.mix(), buffer.held_out(2500), buffer.first_held_out(2500))] == [3, 2, 3]


def test_a_buffer_of_its_own_size_grows_with_model_and_responses() -> None:
    assert enough_bytes(1280, 64, 2**40) == 256 * 2**20
    assert enough_bytes(38_000, 3584, 2**40) == 8 * 38_000 * (8 + 2 * 3584), "of a model of 7B"
    assert enough_bytes(38_000, 3584, 2**33) == 2**30, "where there is less memory"
    assert enough_bytes(38_000, 3584, 2**30) == 256 * 2**20
    assert (most_bytes(2**37), most_bytes(2**30)) == (2**34, 256 * 2**20), "that of a pretraining"


def test_a_buffer_tells_what_it_dropped_before_anyone_could_train_on_it() -> None:
    buffer = DataBuffer(4 * bytes_of(20))
    add(buffer, 0, 20, 30)
    assert buffer.take_lost() == (0, 0)
    add(buffer, 1, 20, 20, 20, 20, 20, 20)
    assert buffer.take_lost() == (2, 40)
    assert buffer.take_lost() == (0, 0)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ([5, 9, 100], [100, 5, 9], 0.0),
        ([4, 5, 6, 7], [7, 7, 4, 4], 0.0),  # one bin
        ([7], [8], 1.0),  # two
        ([10, 10, 10, 100], [10, 100], 0.25),
        ([1, 1, 1000, 1000], [1], 0.5),
        ([], [], 0.0),
        ([], [3], 1.0),
    ],
)
def test_length_distance(one: list[int], other: list[int], distance: float) -> None:
    assert length_distance(one, other) == length_distance(other, one) == pytest.approx(distance)


def test_the_mix_is_closer_to_a_whole_step_than_its_short_responses_alone() -> None:
    """A step of which only the short half is here, after a whole one."""
    buffer = DataBuffer(2**20)
    whole = [8, 12, 16, 20, 40, 60, 80, 200, 500] * 4
    add(buffer, 0, *whole)
    assert buffer.mix_distance() < 0.1
    add(buffer, 1, *[length for length in whole if length <= 40])
    partial = length_distance([length for length in whole if length <= 40], whole)
    assert partial > 0.3
    assert buffer.mix_distance() < 0.15


def test_siblings_are_held_out_together() -> None:
    buffer = DataBuffer(2**20)
    for prompt in range(1, 25):
        add(buffer, 0, 5, 6, 7, prompt=prompt)
    held = {entry.tokens[0].item() for entry in buffer.held_out(10**6)}
    trained = {entry.tokens[0].item() for entry in buffer.mix()}
    assert held
    assert (held | trained, held & trained) == (set(range(1, 25)), set())


def test_one_prompt_in_eight_is_held_out() -> None:
    buffer = DataBuffer(2**22)
    for prompt in range(2000):
        add(buffer, 0, 5, prompt=prompt)
    trained, held = {entry.id for entry in buffer.mix()}, {entry.id for entry in buffer.held_out(10**6)}
    assert not trained & held
    assert trained | held == set(range(2000))
    assert 200 < len(held) < 300


def test_a_prompt_that_comes_again_stays_on_its_side() -> None:
    """A file of prompts begins anew when it is over, and then they are dealt to the workers in another way."""
    first, other, resumed = DataBuffer(2**22), DataBuffer(2**22), DataBuffer(2**22)
    for prompt in range(100):
        add(first, 0, 5, prompt=prompt)
    for prompt in (1, *reversed(range(100))):
        add(other, 0, 5, prompt=prompt)
    resumed.restore(first.counters(), first.since(0))
    for buffer in (first, resumed):
        for prompt in reversed(range(100)):
            add(buffer, 1, 5, prompt=prompt)
    sides = [{(entry.tokens[0].item(), entry.held_out) for entry in buffer.since(0)} for buffer in (first, other, resumed)]
    assert sides[0] == sides[2], "in one buffer, before and after a resume"
    assert len(sides[0]) == len(sides[1]) == 100, "each prompt has one side"
    assert {each for each in sides[0] if each[0] > 1} == {each for each in sides[1] if each[0] > 1}, "but for what was first, the same one"


def test_something_is_held_out_whatever_was_dropped() -> None:
    """Of a few long responses, as of eight siblings each, all may have a hash that is trained on."""
    size = DataBuffer(2**22)
    add(size, 0, 5, prompt=0)
    buffer, found = DataBuffer(size.bytes * 8), []
    for prompt in range(200):
        add(buffer, prompt, 5, prompt=prompt)
        found.append(sum(entry.held_out for entry in buffer.since(0)))
    assert all(before or after for before, after in pairwise(found)), "where the last one has gone, the next prompt is another"
    assert max(found) < 8


def test_a_checkpoint_that_numbered_its_prompts_is_split_as_one_of_today() -> None:
    buffer, restored = DataBuffer(2**22), DataBuffer(2**22)
    for prompt in range(40):
        add(buffer, 0, 5, prompt=prompt)
    numbered = [replace(entry, group=entry.id) for entry in buffer.since(0)]
    restored.restore({"oldest": 0, "next": 40, "group": 39}, numbered)
    assert [entry.held_out for entry in restored.since(0)] == [entry.held_out for entry in buffer.since(0)]


def test_held_out_is_newest_first_and_bounded() -> None:
    buffer = DataBuffer(2**20)
    add(buffer, 0, 10, 10)
    add(buffer, 0, 10, 10, held_out=True)
    add(buffer, 0, 10)
    assert [entry.id for entry in buffer.held_out(30)] == [3, 2]
    assert [entry.id for entry in buffer.held_out(1)] == [3]


def test_responses_that_serving_would_not_draft_are_left_out() -> None:
    buffer = DataBuffer(2**20)
    add(buffer, 0, 1)
    assert len(buffer) == 0


def test_features_must_match_tokens() -> None:
    with pytest.raises(ValueError, match="3 tokens but 3 features"):
        DataBuffer(2**20).add(0, [1, 2, 3], 1, torch.randn(3, WIDTH))


def test_features_are_kept_in_bf16() -> None:
    buffer = DataBuffer(2**20)
    for dtype in (torch.float32, torch.bfloat16):
        buffer.add(0, [1, 2, 3, 4, 5], 2, torch.ones(4, WIDTH, dtype=dtype))
    assert {entry.features.dtype for entry in buffer.held_out(10)} == {torch.bfloat16}


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_features_that_are_not_finite_are_not_kept(value: float) -> None:
    """Nobody could be trained with them: every session until they are dropped would fail."""
    buffer, features = DataBuffer(2**20), torch.randn(9, WIDTH)
    features[4, 2] = value
    buffer.add(0, range(10), PROMPT, features)
    assert (len(buffer), buffer.bytes) == (0, 0)
    add(buffer, 0, 8)
    assert len(buffer) == 1
