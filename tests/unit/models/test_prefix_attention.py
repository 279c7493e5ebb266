"""Segments of packed rows and what they see of a prefix, with a mask or without, against attention by its definition."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models import packed_attention
from engine.models.packed_attention import Mask, attend

HEADS, KEY_HEADS, SIZE = 4, 2, 8


def by_definition(query: Tensor, key: Tensor, value: Tensor, near: Tensor) -> Tensor:
    keys, values = (states.repeat_interleave(HEADS // KEY_HEADS, 1) for states in (key, value))
    scores = (query @ keys.mT * 0.3).masked_fill(~near, -torch.inf)
    return (scores.softmax(-1) @ values).transpose(1, 2)


def compare(segments: Mask, near: Tensor, rows: int = 1, window: int | None = None) -> None:
    """Values and gradients."""
    torch.manual_seed(0)
    drawn = [torch.randn(rows, heads, len(near), SIZE) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    found, expected = ([each.clone().requires_grad_() for each in drawn] for _ in range(2))
    query, key, value = found
    attended, _ = attend(nn.Module(), query, key, value, segments, scaling=0.3, sliding_window=window)
    query, key, value = expected
    truth = by_definition(query, key, value, near)
    torch.testing.assert_close(attended, truth)
    slope = torch.randn_like(truth)
    torch.autograd.backward([attended, truth], [slope, slope])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)


def causal(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def family(prefix: int, *continuations: int) -> Tensor:
    """Which position sees which."""
    near = causal(prefix + sum(continuations))
    start = prefix
    for length in continuations:
        near[start : start + length, prefix:start] = False
        start += length
    return near


def test_a_window_narrower_than_a_segment() -> None:
    compare((23,), causal(23).triu(-5), window=6)


@pytest.mark.parametrize(("prefix", "continuation"), [(2, 16), (2, 17), (5, 3)])
def test_prefixes_of_any_length(prefix: int, continuation: int) -> None:
    compare(((prefix, continuation, 1),), family(prefix, continuation, 1))


def test_a_long_continuation_of_a_short_prefix_has_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = []
    real: Any = functional.scaled_dot_product_attention

    def seen(query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, **options: Any) -> Any:
        masks.append(len(mask))
        return real(query, key, value, *mask, **options)

    monkeypatch.setattr(packed_attention, "scaled_dot_product_attention", seen)
    compare(((2, 16, 15),), family(2, 16, 15))
    assert masks == [0, 0, 1]
