import pytest
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softmax

from engine.bench.live_bytes import LiveBytes
from engine.drafter.law_loss import ROWS, law_loss

HIDDEN, DRAFTED = 8, 50


def whole(predicted: Tensor, head: Tensor, law: Tensor, token_weight: float, reverse_kl_weight: float) -> Tensor:
    """As it is written, at once, with torch's own gradients."""
    draft = log_softmax(predicted @ head.t(), -1)
    reverse = (draft.exp() * (draft - law.log())).sum(-1)
    return (token_weight * -(law * draft).sum(-1) + reverse_kl_weight * reverse).mean()


@pytest.mark.parametrize("count", [1, ROWS, 2 * ROWS + 17])
@pytest.mark.parametrize("weights", [(0.1, 0.0), (0.0, 1.0), (0.7, 0.3)])
def test_loss_and_gradients_are_those_of_the_formula(count: int, weights: tuple[float, float]) -> None:
    """Of two passes, of which the second counts for some of the positions only."""
    torch.manual_seed(count)
    features, true_head = torch.randn(count, HIDDEN), torch.randn(DRAFTED, HIDDEN)
    law = softmax(features @ true_head.t(), -1)
    reached = torch.arange(count) % 3 != 1
    shares = torch.stack([torch.full([count], 1 / count), 0.8 * reached / reached.sum()])
    given = [torch.randn(count, HIDDEN), torch.randn(count, HIDDEN), torch.randn(DRAFTED, HIDDEN)]
    found, expected = ([each.clone().requires_grad_() for each in given] for _ in range(2))
    loss = law_loss(found[:2], shares, found[2], features, true_head, *weights)
    by_hand = whole(expected[0], expected[2], law, *weights) + 0.8 * whole(expected[1][reached], expected[2], law[reached], *weights)
    torch.autograd.backward([2 * loss, 2 * by_hand])
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_a_head_that_is_not_trained_gets_no_gradient() -> None:
    predicted, head = torch.randn(5, HIDDEN, requires_grad=True), torch.randn(DRAFTED, HIDDEN)
    torch.autograd.backward(law_loss([predicted], torch.full((1, 5), 0.2), head, torch.randn(5, HIDDEN), head, 1.0, 0.0))
    assert predicted.grad is not None
    assert head.grad is None


@pytest.mark.parametrize("passes", [1, 7])
def test_of_all_passes_together_no_more_than_a_block_of_laws_is_kept(passes: int) -> None:
    """Of a trained head one gradient, and not one of each pass; of laws at no time more than a few blocks."""
    drafted, count = 4096, 4 * ROWS
    given = [torch.randn(count, HIDDEN, requires_grad=True) for _ in range(passes)]
    head = torch.randn(drafted, HIDDEN, requires_grad=True)
    with LiveBytes() as live:
        loss = law_loss(given, torch.full((passes, count), 1 / count), head, torch.randn(count, HIDDEN), head.detach(), 1.0, 0.1)
        kept = live.now
        torch.autograd.backward(loss)
    block = 4 * ROWS * drafted
    assert kept < passes * 4 * count * HIDDEN + 2 * head.nbytes
    assert live.peak < 8 * block
