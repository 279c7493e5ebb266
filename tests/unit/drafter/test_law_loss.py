import pytest
import torch
from torch import Tensor
from torch.nn.functional import log_softmax, softmax

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
    torch.manual_seed(count)
    law = softmax(3 * torch.randn(2 * count, DRAFTED), -1)
    rows = torch.randperm(2 * count)[:count]
    given = [torch.randn(count, HIDDEN), torch.randn(DRAFTED, HIDDEN)]
    found, expected = ([each.clone().requires_grad_() for each in given] for _ in range(2))
    loss, by_hand = law_loss(found[0], found[1], law, rows, *weights), whole(expected[0], expected[1], law[rows], *weights)
    torch.autograd.backward([2 * loss, 2 * by_hand])
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_a_head_that_is_not_trained_gets_no_gradient() -> None:
    predicted, head = torch.randn(5, HIDDEN, requires_grad=True), torch.randn(DRAFTED, HIDDEN)
    torch.autograd.backward(law_loss(predicted, head, softmax(torch.randn(5, DRAFTED), -1), None, 1.0, 0.0))
    assert predicted.grad is not None
    assert head.grad is None
