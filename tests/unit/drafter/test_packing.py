from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import embedding
from transformers import PretrainedConfig

from engine.drafter.data_buffer import DataBuffer, Entry
from engine.drafter.model import Drafter
from engine.drafter.packing import MicroBatch, Segment, aligned, cut, pack, rows

Forward = Callable[[MicroBatch], Tensor]


def entry(length: int, prompt: int = 3, seed: int = 0) -> Entry:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(48, (length,), generator=generator)
    return Entry(seed, seed, 0, tokens, prompt, torch.randn(length, 32, generator=generator).bfloat16())


def whole(entry: Entry) -> Segment:
    return Segment(entry, 0, entry.positions)


@pytest.fixture
def forward(family: PretrainedConfig) -> Forward:
    torch.manual_seed(0)
    drafter, vocabulary = Drafter(family), torch.randn(48, 32)

    def run(batch: MicroBatch) -> Tensor:
        with torch.no_grad():
            predicted: Tensor = drafter(embedding(batch.tokens, vocabulary), batch.features.float(), batch.positions, batch.lengths)
            return predicted[0]

    return run


def test_packed_is_equal_to_separate_forwards(forward: Forward) -> None:
    entries = [entry(length, seed=length) for length in (20, 7, 33)]
    packed = forward(pack([whole(one) for one in entries]))
    separate = torch.cat([forward(pack([whole(one)])) for one in entries])
    torch.testing.assert_close(packed, separate, atol=1e-5, rtol=0)


def test_a_change_in_one_segment_leaves_the_others_unchanged(forward: Forward) -> None:
    first, second, changed = entry(20, seed=1), entry(15, seed=2), entry(20, seed=3)
    before, after = forward(pack([whole(first), whole(second)])), forward(pack([whole(changed), whole(second)]))
    assert torch.equal(before[18:], after[18:])
    assert not torch.allclose(before[:18], after[:18])


def test_each_position_has_the_tensors_of_the_shift() -> None:
    one = entry(9, prompt=4)
    batch = pack([whole(one)])
    for t in range(7):
        assert batch.tokens[0, t] == one.tokens[t + 1]
        assert torch.equal(batch.features[0, t], one.features[t])
        assert torch.equal(batch.targets[0, t], one.features[t + 1])
        # x[4] is the first response token and comes from the target; the drafter's first token is x[5] = x[t+2] at t = 3
        assert batch.trained[0, t] == (t + 2 >= 5)
    assert batch.positions[0].tolist() == list(range(7))


def test_rows_hold_the_bound_and_keep_the_order() -> None:
    segments = [whole(entry(2 + length, seed=length)) for length in (50, 30, 40, 20, 60, 10)]
    found = list(rows(segments, 80))
    assert [[len(segment) for segment in row] for row in found] == [[50, 30], [40, 20], [60, 10]]
    assert [segment for row in found for segment in row] == segments


def test_a_segment_beyond_the_bound_has_a_row_of_its_own() -> None:
    segments = [whole(entry(2 + length, seed=length)) for length in (90, 10, 95, 20, 30)]
    assert [[len(segment) for segment in row] for row in rows(segments, 80)] == [[90], [10], [95], [20, 30]]


@pytest.mark.parametrize("length", [64, 65, 200, 257])
def test_windows_cover_a_long_entry_once_with_true_positions(length: int) -> None:
    long = entry(length + 2)
    windows = cut(long, 64)
    assert [t for window in windows for t in range(window.start, window.stop)] == list(range(length))
    assert all(len(window) == 64 for window in windows[:-1])
    assert len(windows[-1]) <= 64
    for window in windows:
        batch = pack([window])
        assert batch.positions[0].tolist() == list(range(window.start, window.stop))
        assert torch.equal(batch.tokens[0], long.tokens[window.start + 1 : window.stop + 1])


def test_windows_without_a_response_are_left_out() -> None:
    assert [window.stop for window in cut(entry(202, prompt=150), 50)] == [150, 200]
    assert [window.stop for window in cut(entry(202, prompt=151), 50)] == [200]


def test_buffer_entries_always_have_something_to_train_on() -> None:
    buffer = DataBuffer(2**20)
    for length in range(1, 6):
        for _ in range(9):
            buffer.add(0, [length] * (3 + length), 3, torch.zeros(2 + length, 32))
    assert all(pack([whole(one)]).trained.any() for one in buffer.mix())


def test_alignment_changes_nothing_at_the_true_positions(forward: Forward) -> None:
    batch = pack([whole(entry(length, seed=length)) for length in (20, 7, 66)])
    filled = aligned(batch)
    assert filled.lengths == (32, 32, 64)
    there = torch.cat([torch.arange(start, start + length) for start, length in ((0, 18), (32, 5), (64, 64))])
    assert torch.equal(filled.tokens[:, there], batch.tokens)
    assert torch.equal(filled.targets[:, there], batch.targets)
    assert torch.equal(filled.trained[:, there], batch.trained)
    assert filled.trained.sum() == batch.trained.sum()
    torch.testing.assert_close(forward(filled)[there], forward(batch), atol=1e-5, rtol=0)
    assert aligned(pack([whole(entry(35))])).lengths == (128,)
