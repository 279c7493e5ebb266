import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from engine.policy.training import logprobs
from engine.policy.training.logprobs import label_logprobs


def inputs() -> tuple[torch.Tensor, nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(23, 8, requires_grad=True), nn.Linear(8, 40, bias=False), torch.randint(40, (23,))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_matches_the_categorical_law(temperature: float) -> None:
    hidden, head, labels = inputs()
    law = Categorical(logits=head(hidden) / temperature)
    found, entropies = label_logprobs(hidden, head, labels, temperature)
    torch.testing.assert_close(found, law.log_prob(labels), atol=1e-6, rtol=1e-6)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(entropies, law.entropy(), atol=1e-6, rtol=1e-6)  # type: ignore[no-untyped-call]
    assert not entropies.requires_grad


def test_chunks_change_neither_values_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, head, labels = inputs()
    weights = torch.rand(23)
    whole, _ = label_logprobs(hidden, head, labels, 1.3)
    expected = torch.autograd.grad((whole * weights).sum(), [hidden, head.weight])
    monkeypatch.setattr(logprobs, "LOGITS_AT_ONCE", 5 * 40)
    rows = []
    head.register_forward_hook(lambda _module, _inputs, output: rows.append(len(output)))
    chunked, entropies = label_logprobs(hidden, head, labels, 1.3)
    found = torch.autograd.grad((chunked * weights).sum(), [hidden, head.weight])
    assert max(rows) == 5
    assert len(entropies) == 23
    torch.testing.assert_close(chunked, whole)
    torch.testing.assert_close(found, expected)


def test_inference_computes_a_block_at_a_time_and_no_entropies(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, head, labels = inputs()
    expected, _ = label_logprobs(hidden, head, labels, 1.3)
    monkeypatch.setattr(logprobs, "LOGITS_IN_CACHE", 7 * 40)
    rows = []
    head.register_forward_hook(lambda _module, _inputs, output: rows.append(len(output)))
    with torch.no_grad():
        found, entropies = label_logprobs(hidden, head, labels, 1.3)
    assert rows == [7, 7, 7, 2]
    torch.testing.assert_close(found, expected)
    assert not entropies.any()
