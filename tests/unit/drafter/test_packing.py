from random import Random

import pytest
import torch
from torch.nn.functional import embedding

from engine.drafter.buffer import DataBuffer, Entry
from engine.drafter.model import Drafter
from engine.drafter.packing import MicroBatch, Segment, pack, segments


def entry(length: int, prompt: int = 3, seed: int = 0) -> Entry:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(48, (length,), generator=generator)
    return Entry(seed, 0, tokens, prompt, torch.randn(length, 32, generator=generator).bfloat16())


def whole(entry: Entry) -> Segment:
    return Segment(entry, 0, entry.positions)


@pytest.fixture
def forward(family):
    torch.manual_seed(0)
    drafter, vocabulary = Drafter(family), torch.randn(48, 32)

    def run(batch: MicroBatch) -> torch.Tensor:
        with torch.no_grad():
            return drafter(embedding(batch.tokens, vocabulary), batch.features.float(), batch.positions, batch.mask)[0]

    return run


def test_packed_is_equal_to_separate_forwards(forward):
    entries = [entry(length, seed=length) for length in (20, 7, 33)]
    packed = forward(pack([whole(one) for one in entries]))
    separate = torch.cat([forward(pack([whole(one)])) for one in entries])
    torch.testing.assert_close(packed, separate, atol=1e-5, rtol=0)


def test_a_change_in_one_segment_leaves_the_others_unchanged(forward):
    first, second, changed = entry(20, seed=1), entry(15, seed=2), entry(20, seed=3)
    before, after = forward(pack([whole(first), whole(second)])), forward(pack([whole(changed), whole(second)]))
    assert torch.equal(before[18:], after[18:])
    assert not torch.allclose(before[:18], after[:18])


def test_each_position_has_the_tensors_of_the_shift():
    one = entry(9, prompt=4)
    batch = pack([whole(one)])
    for t in range(7):
        assert batch.tokens[0, t] == one.tokens[t + 1]
        assert torch.equal(batch.features[0, t], one.features[t])
        assert torch.equal(batch.targets[0, t], one.features[t + 1])
        # x[4] is the first response token and comes from the target; the drafter's first token is x[5] = x[t+2] at t = 3
        assert batch.trained[0, t] == (t + 2 >= 5)
    assert batch.positions[0].tolist() == list(range(7))


def test_rows_hold_the_bound_and_every_position_once():
    entries = [entry(2 + length, seed=length) for length in (50, 30, 40, 20, 60, 10)]
    rows = list(segments(entries, 80, Random(0)))
    assert all(sum(map(len, row)) <= 80 for row in rows)
    assert [segment.entry.id for row in rows for segment in row] == [50, 30, 40, 20, 60, 10]
    assert [len(row) for row in rows] == [2, 2, 2]


@pytest.mark.parametrize("prompt", [3, 150])
def test_a_too_long_entry_is_a_window_with_its_true_positions(prompt):
    long, starts = entry(202, prompt), set()
    for seed in range(40):
        rows = list(segments([entry(12, seed=1), long, entry(22, seed=2)], 64, Random(seed)))
        assert [len(row) for row in rows] == [1, 2]
        window = rows[0][0]
        batch = pack(rows[0])
        starts.add(window.start)
        assert batch.positions[0].tolist() == list(range(window.start, window.start + 64))
        assert torch.equal(batch.tokens[0], long.tokens[window.start + 1 : window.start + 65])
        assert batch.trained.any()
    assert len(starts) > 10


def test_buffer_entries_always_have_something_to_train_on():
    buffer = DataBuffer(2**20)
    for length in range(1, 6):
        for _ in range(9):
            buffer.add(0, [1] * (3 + length), 3, torch.zeros(3 + length, 32))
    assert all(pack([whole(one)]).trained.any() for one in buffer.mix())
