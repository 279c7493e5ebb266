import math

import pytest
import torch
from torch import Tensor

from engine.policy.algorithms.kl import KL_ESTIMATORS, k3


@pytest.fixture
def laws() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    policy, reference = torch.randn(2, 7, generator=generator, dtype=torch.float64).log_softmax(dim=-1)
    return policy, reference


def test_matches_the_formulas() -> None:
    new, reference = [-1.0, -0.2, -5.0], [-1.5, -0.1, -2.0]
    expected = {
        "k1": [math.log(math.exp(n) / math.exp(r)) for n, r in zip(new, reference, strict=True)],
        "k2": [math.log(math.exp(n) / math.exp(r)) ** 2 / 2 for n, r in zip(new, reference, strict=True)],
        "k3": [math.exp(r) / math.exp(n) - 1 - math.log(math.exp(r) / math.exp(n)) for n, r in zip(new, reference, strict=True)],
    }
    assert set(expected) == set(KL_ESTIMATORS)
    for name, values in expected.items():
        found = KL_ESTIMATORS[name](torch.tensor(new, dtype=torch.float64), torch.tensor(reference, dtype=torch.float64))
        torch.testing.assert_close(found, torch.tensor(values, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_unbiased_under_the_policy(laws: tuple[Tensor, Tensor], name: str) -> None:
    policy, reference = laws
    exact = (policy.exp() * (policy - reference)).sum()
    torch.testing.assert_close((policy.exp() * KL_ESTIMATORS[name](policy, reference)).sum(), exact)


def test_k3_is_never_negative(laws: tuple[Tensor, Tensor]) -> None:
    assert (k3(*laws) >= 0).all()


@pytest.mark.parametrize(("name", "true"), [("k1", False), ("k2", True)])
def test_only_k2s_gradient_is_that_of_the_kl(laws: tuple[Tensor, Tensor], name: str, true: bool) -> None:
    """Over all tokens, weighted by the policy: what a term of the loss does on average."""
    _, reference = laws
    logits = torch.randn(7, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    policy = logits.log_softmax(dim=-1)
    (exact,) = torch.autograd.grad((policy.exp() * (policy - reference)).sum(), logits, retain_graph=True)
    (found,) = torch.autograd.grad((policy.detach().exp() * KL_ESTIMATORS[name](policy, reference)).sum(), logits)
    torch.testing.assert_close(found, exact if true else torch.zeros_like(exact), atol=1e-9, rtol=0)
