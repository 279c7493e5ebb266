import pytest
import torch

from engine.drafter.recipe import Eagle, acceptance, top1_agreement


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return torch.randn(6, 8), torch.randn(6, 8), torch.randn(5, 8)


def test_loss_is_its_formula(tensors):
    predicted, features, head = tensors
    regression = cross_entropy = 0.0
    for ours, theirs in zip(predicted, features, strict=True):
        difference = (ours - theirs).abs()
        regression += torch.where(difference < 1, 0.5 * difference**2, difference - 0.5).mean().item() / 6
        law, draft = torch.softmax(head @ theirs, 0), torch.softmax(head @ ours, 0)
        cross_entropy -= sum((p * q.log()).item() for p, q in zip(law, draft, strict=True)) / 6
    assert Eagle().loss(predicted, features, head).item() == pytest.approx(regression + 0.1 * cross_entropy, rel=1e-5)
    assert Eagle(0.0, 2.0).loss(predicted, features, head).item() == pytest.approx(2 * cross_entropy, rel=1e-5)


def test_measures_of_agreement(tensors):
    predicted, features, head = tensors
    assert acceptance(features, features, head).tolist() == pytest.approx([1.0] * 6)
    law, draft = torch.softmax(features @ head.T, 1), torch.softmax(predicted @ head.T, 1)
    # 1 - total variation distance is the chance that a sampled draft is accepted
    assert acceptance(predicted, features, head).tolist() == pytest.approx((1 - 0.5 * (law - draft).abs().sum(1)).tolist(), rel=1e-5)
    assert top1_agreement(predicted, features, head).tolist() == [
        p.argmax().item() == q.argmax().item() for p, q in zip(law, draft, strict=True)
    ]
