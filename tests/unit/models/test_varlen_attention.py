"""Packed rows as a GPU's kernel takes them: on a CPU its place is taken by its definition."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.models import packed_attention
from engine.models.packed_attention import Segments, _parts, attend
from engine.models.varlen_attention import attend_varlen, takes

HEADS, KEY_HEADS, SIZE = 4, 2, 8


def definition(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Tensor,
    keys: Tensor,
    longest_query: int,
    longest_key: int,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
) -> Tensor:
    """What torch.nn.attention.varlen.varlen_attn computes, sequence by sequence: queries are the last positions of their keys."""
    assert enable_gqa
    outputs = []
    for place in range(len(queries) - 1):
        q = query[queries[place] : queries[place + 1]]
        k, v = (each[keys[place] : keys[place + 1]].repeat_interleave(HEADS // KEY_HEADS, 1) for each in (key, value))
        assert len(q) <= longest_query
        assert len(k) <= longest_key
        behind = torch.arange(len(k) - len(q), len(k))[:, None] - torch.arange(len(k))
        hidden = (behind < -window_size[1]) | ((behind > window_size[0]) if window_size[0] >= 0 else torch.tensor(False))
        scores = torch.einsum("qhd,khd->hqk", q, k).mul(scale).masked_fill(hidden, -torch.inf)
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
    return torch.cat(outputs)


def attended_by(drawn: list[Tensor], segments: Segments, options: dict[str, Any]) -> tuple[Tensor, None]:
    query, key, value = drawn
    return attend(nn.Module(), query, key, value, segments, **options)


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("segments", [(12,), (3, 9, 1), ((4, 3, 5), 6, (2, 7, 1, 2))], ids=["one", "rows", "prefixes"])
def test_it_is_what_a_cpu_computes_segment_by_segment(segments: Segments, window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    total = sum(sum(each) if isinstance(each, tuple) else each for each in segments)
    drawn = [torch.randn(1, heads, total, SIZE, dtype=torch.float64) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    found, expected = ([each.clone().requires_grad_() for each in drawn] for _ in range(2))
    options: dict[str, Any] = {"scaling": 0.3, "sliding_window": window}
    by_hand, _ = attended_by(expected, segments, options)
    monkeypatch.setattr("engine.models.varlen_attention.HALVES", (torch.float64,))
    monkeypatch.setattr(packed_attention, "takes", lambda *_: True)
    monkeypatch.setattr(packed_attention, "attend_varlen", partial(attend_varlen, kernel=definition))
    attended, _ = attended_by(found, segments, options)
    torch.testing.assert_close(attended, by_hand)
    slope = torch.randn_like(by_hand)
    torch.autograd.backward([attended, by_hand], [slope, slope])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_a_cpu_takes_no_kernel() -> None:
    assert not takes(torch.zeros(1, HEADS, 2, SIZE).bfloat16(), torch.zeros(1, KEY_HEADS, 2, SIZE).bfloat16())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.parametrize("window", [None, 40])
def test_the_kernel_computes_its_definition(window: int | None) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, 200, 64, device="cuda", dtype=torch.bfloat16) for heads in (HEADS, KEY_HEADS, KEY_HEADS))
    parts = _parts(((40, 30, 50), 60, 20))
    found = attend_varlen(query, key, value, parts, 0.125, window)
    expected = attend_varlen(query.cpu(), key.cpu(), value.cpu(), parts, 0.125, window, definition)
    torch.testing.assert_close(found.cpu().float(), expected.float(), atol=0.02, rtol=0.02)
