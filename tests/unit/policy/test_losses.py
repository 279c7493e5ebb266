import math

import pytest
import torch
from torch import Tensor

from engine.config import AlgorithmConfig
from engine.policy.losses import clipped_ratio, k3

CONFIG = AlgorithmConfig(clip_low=0.2, clip_high=0.3, kl_coefficient=0.05)


def inputs(seed: int = 0, size: int = 400) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    new = -3 * torch.rand(size, generator=generator, dtype=torch.float64)
    old = new + 0.4 * torch.randn(size, generator=generator, dtype=torch.float64)
    reference = new + 0.4 * torch.randn(size, generator=generator, dtype=torch.float64)
    return new, old, reference, torch.randn(size, generator=generator, dtype=torch.float64)


def scalar_loss(new: float, old: float, reference: float, advantage: float) -> tuple[float, float, bool]:
    """The formulas of the papers for one token, case by case."""
    ratio = math.exp(new) / math.exp(old)
    kl = math.exp(reference) / math.exp(new) - (reference - new) - 1
    cut = (advantage > 0 and ratio > 1.3) or (advantage < 0 and ratio < 0.8)
    bound = 1.3 if advantage > 0 else 0.8
    return -(bound if cut else ratio) * advantage + 0.05 * kl, kl, cut


def test_matches_the_formulas_token_by_token() -> None:
    new, old, reference, advantages = inputs()
    result = clipped_ratio(new, old, reference, advantages, CONFIG)
    rows = zip(new.tolist(), old.tolist(), reference.tolist(), advantages.tolist(), strict=True)
    losses, kls, cuts = zip(*(scalar_loss(*row) for row in rows), strict=True)
    torch.testing.assert_close(result.loss, torch.tensor(losses, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(result.kl, torch.tensor(kls, dtype=torch.float64), atol=1e-6, rtol=0)
    assert result.clipped.tolist() == list(cuts)
    assert 20 < sum(cuts) < 380


def test_gradient_matches_finite_differences() -> None:
    new, old, reference, advantages = inputs(seed=1, size=50)
    assert torch.autograd.gradcheck(
        lambda x: clipped_ratio(x, old, reference, advantages, CONFIG).loss, new.requires_grad_(), eps=1e-7, atol=1e-5
    )


def test_at_the_old_policy_the_gradient_is_the_policy_gradient() -> None:
    new, _, _, advantages = inputs()
    new.requires_grad_()
    clipped_ratio(new, new.detach(), new.detach(), advantages, CONFIG).loss.sum().backward()
    torch.testing.assert_close(new.grad, -advantages)


def test_k3_averages_to_the_kl_divergence() -> None:
    generator = torch.Generator().manual_seed(0)
    policy, reference = torch.randn(2, 7, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    exact = (policy.exp() * (policy - reference)).sum()
    assert (k3(policy, reference) >= 0).all()
    torch.testing.assert_close((policy.exp() * k3(policy, reference)).sum(), exact)


def test_without_a_reference_there_is_no_kl() -> None:
    new, old, reference, advantages = inputs()
    plain = clipped_ratio(new, old, None, advantages, CONFIG)
    assert not plain.kl.any()
    with_kl = clipped_ratio(new, old, reference, advantages, CONFIG)
    torch.testing.assert_close(with_kl.loss - plain.loss, 0.05 * with_kl.kl)


@pytest.mark.parametrize("distance", [-500.0, 500.0])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_far_policies_keep_losses_and_gradients_finite(distance: float, advantage: float) -> None:
    new = torch.tensor([-1.0], requires_grad=True)
    result = clipped_ratio(new, new.detach() - distance, new.detach() + distance, torch.tensor([advantage]), CONFIG)
    result.loss.sum().backward()
    assert result.loss.isfinite().all()
    assert new.grad is not None
    assert new.grad.isfinite().all()
