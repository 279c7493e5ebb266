"""Against the papers' formulas, one token at a time in plain Python, and gradients against finite differences."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.config.algorithm import AlgorithmConfig
from engine.policy.algorithms.losses import LOSSES, Tokens, clipped_ratio

LENGTHS = (70, 1, 129, 200)
LIMITS = {"clipped_ratio": (0.2, 0.3), "sequence_ratio": (0.02, 0.01), "clipped_weight": (0.2, 0.3), "score_function": (0.2, 0.3)}
Scalars = list[float]


def config(name: str) -> AlgorithmConfig:
    low, high = LIMITS[name]
    return AlgorithmConfig(loss=name, clip_low=low, clip_high=high)


def tokens(seed: int = 0, lengths: tuple[int, ...] = LENGTHS) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    new = -3 * torch.rand(sum(lengths), generator=generator, dtype=torch.float64)
    old = new + 0.4 * torch.randn(sum(lengths), generator=generator, dtype=torch.float64)
    advantages = torch.randn(len(lengths), generator=generator, dtype=torch.float64).repeat_interleave(torch.tensor(lengths))
    return Tokens(new, old, advantages, lengths)


def ppo(ratio: float, advantage: float, low: float, high: float) -> tuple[float, bool]:
    cut = (advantage > 0 and ratio > 1 + high) or (advantage < 0 and ratio < 1 - low)
    bound = 1 + high if advantage > 0 else 1 - low
    return -(bound if cut else ratio) * advantage, cut


def ppo_clip(new: Scalars, old: Scalars, advantage: float, low: float, high: float) -> list[tuple[float, bool]]:
    return [ppo(math.exp(n) / math.exp(o), advantage, low, high) for n, o in zip(new, old, strict=True)]


def gspo(new: Scalars, old: Scalars, advantage: float, low: float, high: float) -> list[tuple[float, bool]]:
    likelihood = math.prod(math.exp(n) / math.exp(o) for n, o in zip(new, old, strict=True))
    return [ppo(likelihood ** (1 / len(new)), advantage, low, high)] * len(new)


def cispo(new: Scalars, old: Scalars, advantage: float, low: float, high: float) -> list[tuple[float, bool]]:
    ratios = [math.exp(n) / math.exp(o) for n, o in zip(new, old, strict=True)]
    weights = [min(max(ratio, 1 - low), 1 + high) for ratio in ratios]
    return [(-weight * advantage * n, weight != ratio) for weight, ratio, n in zip(weights, ratios, new, strict=True)]


def reinforce(new: Scalars, old: Scalars, advantage: float, low: float, high: float) -> list[tuple[float, bool]]:  # noqa: ARG001
    return [(-advantage * n, False) for n in new]


FORMULAS: dict[str, Callable[..., list[tuple[float, bool]]]] = {
    "clipped_ratio": ppo_clip,
    "sequence_ratio": gspo,
    "clipped_weight": cispo,
    "score_function": reinforce,
}


@pytest.mark.parametrize("name", LOSSES)
def test_matches_the_paper(name: str) -> None:
    given = tokens()
    result = LOSSES[name](given, config(name))
    parts = (torch.split(values, list(LENGTHS)) for values in (given.logprobs, given.old_logprobs, given.advantages))
    expected = [
        pair
        for new, old, advantages in zip(*parts, strict=True)
        for pair in FORMULAS[name](new.tolist(), old.tolist(), advantages[0].item(), *LIMITS[name])
    ]
    torch.testing.assert_close(result.loss, torch.tensor([loss for loss, _ in expected], dtype=torch.float64), atol=1e-6, rtol=0)
    assert result.clipped.tolist() == [cut for _, cut in expected]
    assert name == "score_function" or 0 < result.clipped.sum() < len(expected)


@pytest.mark.parametrize("name", ["clipped_ratio", "sequence_ratio", "score_function"])
def test_gradient_matches_finite_differences(name: str) -> None:
    given = tokens(1, (20, 1, 29))

    def loss(new: Tensor) -> Tensor:
        return LOSSES[name](Tokens(new, given.old_logprobs, given.advantages, given.lengths), config(name)).loss

    assert torch.autograd.gradcheck(loss, given.logprobs.requires_grad_(), eps=1e-7, atol=1e-5)


def test_a_clipped_weight_is_a_constant_and_keeps_every_gradient() -> None:
    given = tokens()
    new = given.logprobs.requires_grad_()
    LOSSES["clipped_weight"](given, config("clipped_weight")).loss.sum().backward()  # type: ignore[no-untyped-call]
    ratios = (new.detach() - given.old_logprobs).exp()
    torch.testing.assert_close(new.grad, -ratios.clamp(0.8, 1.3) * given.advantages)


@pytest.mark.parametrize("name", LOSSES)
def test_at_the_old_policy_the_gradient_is_the_policy_gradient(name: str) -> None:
    given = tokens()
    new = given.logprobs.requires_grad_()
    LOSSES[name](Tokens(new, new.detach(), given.advantages, given.lengths), config(name)).loss.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(new.grad, -given.advantages)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("distance", [-500.0, 500.0])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_far_policies_keep_losses_and_gradients_finite(name: str, distance: float, advantage: float) -> None:
    new = torch.tensor([-1.0], requires_grad=True)
    result = LOSSES[name](Tokens(new, new.detach() - distance, torch.tensor([advantage]), (1,)), config(name))
    result.loss.sum().backward()  # type: ignore[no-untyped-call]
    assert result.loss.isfinite().all()
    assert new.grad is not None
    assert new.grad.isfinite().all()


def test_clip_higher_leaves_more_room_above() -> None:
    wide, narrow = (clipped_ratio(tokens(), AlgorithmConfig(clip_high=high)).clipped.sum() for high in (0.6, 0.2))
    assert wide < narrow
