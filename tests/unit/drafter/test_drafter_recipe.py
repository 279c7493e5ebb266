from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.config import DrafterConfig
from engine.drafter.kind import RECIPE_KINDS
from engine.drafter.recipe import HeldOutTruth, Recipe, TrainingTruth, acceptance, configured_recipe, ranks


@pytest.fixture
def tensors() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(6, 8), torch.randn(6, 8), torch.randn(5, 8)


def test_loss_is_its_formula(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    predicted, features, head = tensors
    regression, cross_entropy, laws = 0.0, 0.0, []
    for ours, theirs in zip(predicted, features, strict=True):
        difference = (ours - theirs).abs()
        regression += torch.where(difference < 1, 0.5 * difference**2, difference - 0.5).mean().item() / 6
        law, draft = torch.softmax(head @ theirs, 0), torch.softmax(head @ ours, 0)
        laws.append((law, draft))
        cross_entropy -= sum((p * q.log()).item() for p, q in zip(law, draft, strict=True)) / 6

    def loss(recipe: Recipe, predicted: Tensor) -> float:
        return recipe.loss([predicted], TrainingTruth(features, head), head).item()

    assert loss(Recipe(), predicted) == pytest.approx(regression + 0.1 * cross_entropy, rel=1e-5)
    only_tokens = Recipe(feature_weight=0.0, token_weight=2.0)
    assert loss(only_tokens, predicted) == pytest.approx(2 * cross_entropy, rel=1e-5)
    reverse = sum((q * (q.log() - p.log())).sum().item() / 6 for p, q in laws)
    with_reverse = Recipe(feature_weight=0.0, token_weight=0.0, reverse_kl_weight=3.0)
    assert loss(with_reverse, predicted) == pytest.approx(3 * reverse, rel=1e-5)
    assert loss(with_reverse, features) == pytest.approx(0, abs=1e-6)


def test_recipes_are_those_of_the_configuration() -> None:
    recipes = {name: configured_recipe(DrafterConfig(recipe=name)) for name in ("eagle", "hass", "eagle3")}
    assert {name: (recipe.kind, recipe.unroll) for name, recipe in recipes.items()} == {
        "eagle": ("eagle", 2),
        "hass": ("eagle", 3),
        "eagle3": ("eagle3", 7),
    }
    assert {name: recipe.kind for name, recipe in recipes.items()} == RECIPE_KINDS
    assert configured_recipe(DrafterConfig()) == recipes["eagle"]
    assert configured_recipe(DrafterConfig(recipe="hass", reverse_kl=0.5)) == replace(recipes["hass"], reverse_kl_weight=0.5)


def test_measures_of_agreement(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    predicted, features, head = tensors
    truth = HeldOutTruth.of(features, head)
    assert acceptance(features, truth, head).tolist() == pytest.approx([1.0] * 6)
    law, draft = torch.softmax(features @ head.T, 1), torch.softmax(predicted @ head.T, 1)
    # 1 - total variation distance is the chance that a sampled draft is accepted
    assert acceptance(predicted, truth, head).tolist() == pytest.approx((1 - 0.5 * (law - draft).abs().sum(1)).tolist(), rel=1e-5)
    assert ranks(predicted, truth, head).tolist() == [
        q.argsort(descending=True).tolist().index(p.argmax().item()) for p, q in zip(law, draft, strict=True)
    ]


def test_a_drafter_without_an_opinion_agrees_where_its_first_token_is_the_targets(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    """To it all tokens are alike: that none is more likely than the target's is no agreement."""
    _, features, head = tensors
    truth = HeldOutTruth.of(features, head)
    assert len(set(truth.best.tolist())) > 1
    assert torch.equal(ranks(torch.zeros(6, 8), truth, head), truth.best)


def test_a_drafter_whose_logits_are_no_numbers_never_agrees(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    _, features, head = tensors
    assert ranks(torch.full((6, 8), torch.nan), HeldOutTruth.of(features, head), head).tolist() == [5] * 6


def test_a_draft_vocabulary_is_measured_by_the_whole_law_and_trained_on_its_own(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    predicted, features, head = tensors
    ids = torch.tensor([0, 2, 3])
    drafted, truth = head[ids], HeldOutTruth.of(features, head, ids)
    law, draft = torch.softmax(features @ head.T, 1), torch.zeros(6, 5)
    draft[:, ids] = torch.softmax(predicted @ drafted.T, 1)
    expected = torch.minimum(law, draft).sum(1)
    assert acceptance(predicted, truth, drafted).tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    best = law.argmax(1).tolist()
    assert {token in ids.tolist() for token in best} == {True, False}, "some of the best tokens are drafted, some are not"
    order = [row.argsort(descending=True).tolist() for row in draft]
    found = ranks(predicted, truth, drafted).tolist()
    assert found == [places.index(token) if token in ids.tolist() else 3 for places, token in zip(order, best, strict=True)]
    recipe = Recipe(feature_weight=0.0, token_weight=1.0, reverse_kl_weight=0.5)
    p, q = torch.softmax(features @ drafted.T, 1), torch.softmax(predicted @ drafted.T, 1)
    by_hand = (-(p * q.log()).sum(1) + 0.5 * (q * (q.log() - p.log())).sum(1)).mean().item()
    assert recipe.loss([predicted], TrainingTruth(features, drafted), drafted).item() == pytest.approx(by_hand, rel=1e-5)
