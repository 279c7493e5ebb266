"""Segments of packed rows, each by the way that is fast for it, against attention by its definition."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from engine.models import blocked_attention, packed_attention
from engine.models.packed_attention import Mask, attend

HEADS, KEY_HEADS, SIZE = 4, 2, 8


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of the queries that are computed block by block: of all from 12 on, in blocks of 5."""
    lengths: list[int] = []
    real = blocked_attention.attend_blocked

    def counted(query: Tensor, *arguments: Any) -> Tensor:
        lengths.append(query.shape[2])
        return real(query, *arguments)

    monkeypatch.setattr(packed_attention, "pays", lambda _: True)
    monkeypatch.setattr(packed_attention, "FEWEST", 12)
    monkeypatch.setattr(packed_attention, "attend_blocked", counted)
    monkeypatch.setattr(blocked_attention, "BLOCK", 5)
    return lengths


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


def test_long_segments_are_computed_block_by_block(blocked: list[int]) -> None:
    compare((4, 23), torch.block_diag(causal(4), causal(23)).bool())  # type: ignore[no-untyped-call]
    assert blocked == [23]


def test_so_are_long_continuations_of_a_prefix(blocked: list[int]) -> None:
    compare(((3, 17, 2, 12),), family(3, 17, 2, 12))
    assert blocked == [17, 12]


def test_so_are_padded_rows(blocked: list[int]) -> None:
    compare(None, causal(13), rows=3)
    assert blocked == [13]


def test_a_window_needs_a_mask(blocked: list[int]) -> None:
    compare((23,), causal(23).triu(-5), window=6)
    assert not blocked


@pytest.mark.parametrize(("prefix", "continuation"), [(2, 16), (2, 17), (5, 3)])
def test_prefixes_of_any_length(prefix: int, continuation: int) -> None:
    compare(((prefix, continuation, 1),), family(prefix, continuation, 1))


def test_a_long_continuation_of_a_short_prefix_has_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = []
    real: Any = scaled_dot_product_attention

    def seen(query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, **options: Any) -> Tensor:
        masks.append(len(mask))
        mixed: Tensor = real(query, key, value, *mask, **options)
        return mixed

    monkeypatch.setattr(packed_attention, "scaled_dot_product_attention", seen)
    compare(((2, 16, 15),), family(2, 16, 15))
    assert masks == [0, 0, 1]
