from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.models import past_attention
from engine.models.past_attention import attend_past

SCALING = 0.3
Attention = Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]


def plain(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    scores = query @ key.mT * scaling
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


@pytest.mark.parametrize("scores", [1, 80, 2**20])
def test_it_is_attention_and_so_are_its_gradients(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one row, of two, and of all; both results have gradients."""
    monkeypatch.setattr(past_attention, "SCORES", scores)
    torch.manual_seed(0)
    key, value = torch.randn(2, 1, 3, 11, 8)
    query, slopes = 4 * torch.randn(1, 3, 7, 8), (torch.randn(1, 3, 7, 8), torch.randn(1, 3, 7))
    found = []
    for attention in (attend_past, plain):
        queries = query.clone().requires_grad_()
        results = attention(queries, key, value, SCALING)
        torch.autograd.backward(results, slopes)
        found.append((*results, queries.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def gradient(attention: Attention, states: Tensor, slopes: tuple[Tensor, Tensor], half: bool) -> Tensor:
    query, key, value = states
    queries = query.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        mixed, mass = attention(queries, key, value, SCALING)
    torch.autograd.backward((mixed, mass), (slopes[0].to(mixed), slopes[1].to(mass)))
    found: Tensor | None = queries.grad
    assert found is not None
    return found


def test_gradients_have_the_precision_of_autocast_s() -> None:
    """They are computed once it has ended, of scores that must be the same as before."""
    torch.manual_seed(0)
    states, slopes = torch.randn(3, 1, 2, 300, 32), (torch.randn(1, 2, 300, 32), torch.randn(1, 2, 300))
    states[0] *= 8
    true = gradient(plain, states, slopes, half=False)
    ours, theirs = ((gradient(attention, states, slopes, half=True) - true).norm() for attention in (attend_past, plain))
    assert ours < 1.2 * theirs
