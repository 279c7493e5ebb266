"""What the packing benchmark compares must be the same training: padding is no part of it."""

import pytest
import torch
from torch.nn.functional import embedding
from transformers import Qwen2Config

from engine.bench.packing import pad, padded_groups
from engine.drafter.data_buffer import Entry
from engine.drafter.model import Drafter
from engine.drafter.packing import Segment, pack

WIDTH, VOCABULARY = 160, 98


def segment(length: int, prompt: int = 3) -> Segment:
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(VOCABULARY, (length + 2,), generator=generator)
    entry = Entry(length, length, 0, tokens, prompt, torch.randn(length + 1, WIDTH, generator=generator).bfloat16())
    return Segment(entry, 0, length)


def test_groups_hold_the_bound_with_their_padding() -> None:
    groups = list(padded_groups([segment(length) for length in (10, 30, 20, 5, 40, 90)], 100))
    assert [[len(one) for one in group] for group in groups] == [[10, 30, 20], [5, 40], [90]]


def test_padded_and_packed_predict_the_same(tiny_config: Qwen2Config) -> None:
    torch.manual_seed(0)
    drafter, vocabulary = Drafter(tiny_config), torch.randn(VOCABULARY, WIDTH)
    group = [segment(length) for length in (9, 31, 14)]
    found = []
    for batch in (pack(group), pad(group)):
        predicted = drafter(embedding(batch.tokens, vocabulary), batch.features.float(), batch.positions, batch.lengths)
        found.append((predicted[batch.trained], batch.targets[batch.trained], batch.offset[batch.trained]))
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-5, rtol=1e-5)
    assert torch.equal(found[0][1], found[1][1])
    assert torch.equal(found[0][2], found[1][2])


@pytest.fixture
def tiny_config() -> Qwen2Config:
    from engine.models.tiny import tiny_config

    return tiny_config(VOCABULARY)
