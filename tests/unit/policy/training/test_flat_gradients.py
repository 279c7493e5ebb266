import copy
import math

import pytest
import torch
from torch import nn

from engine.policy.training.flat_gradients import FlatGradients


def test_accumulates_and_clips_like_the_library() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3))
    other = copy.deepcopy(model)
    gradients = FlatGradients(model.parameters())
    gradients.zero()
    for factor in (1.0, 3.0):
        for module in (model, other):
            (module(torch.full((2, 5), factor)).pow(2).sum()).backward()
    expected = nn.utils.clip_grad_norm_(other.parameters(), 0.5)
    assert gradients.clip(0.5) == pytest.approx(expected.item())
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("most", [100.0, math.inf])
def test_a_small_gradient_is_not_scaled(most: float) -> None:
    model = nn.Linear(2, 1)
    gradients = FlatGradients(model.parameters())
    model(torch.tensor([[3.0, 4.0]])).sum().backward()
    before = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    gradients.clip(most)
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], before, rtol=0, atol=0)


def test_a_gradient_that_is_not_finite_has_such_a_norm() -> None:
    model = nn.Linear(2, 1)
    gradients = FlatGradients(model.parameters())
    (model(torch.ones(1, 2)) * float("nan")).sum().backward()
    assert math.isnan(gradients.clip(1.0))
