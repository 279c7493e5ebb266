"""The engine's own forward passes against transformers and the drafter's training module."""

from typing import Any

import pytest
import torch
from native_cases import SHAPES, make_target
from torch import Tensor
from transformers import PreTrainedModel

from engine.drafter.model import Drafter
from engine.errors import ModelError
from engine.rollout.native.placement import Placement
from engine.rollout.native.runner import Runner

LIKE = torch.empty(0)


def runner_of(model: PreTrainedModel, drafting: bool = False) -> Runner:
    runner = Runner(model.config, LIKE, drafting)
    runner.target.load(model.state_dict())
    return runner


def logits_of(runner: Runner, tokens: Tensor, pieces: list[int]) -> Tensor:
    """Logits [n, T, vocabulary] of [n, T], run in pieces of these lengths."""
    runner.reserve(*tokens.shape)
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    outputs = []
    for piece in torch.split(positions, pieces, 1):
        step = runner.cache.plan(Placement(piece, int(piece.max()) + 1))
        features = runner.target.features(tokens.gather(1, piece).flatten(), step)
        outputs.append(runner.target.logits(features).view(*piece.shape, -1))
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("pieces", [[100], [1] * 100, [60, 1, 8, 31]])
def test_logits_are_those_of_transformers(family: str, pieces: list[int]) -> None:
    model = make_target(family)
    tokens = torch.randint(48, (3, 100))
    with torch.inference_mode():
        expected = model(tokens).logits
        actual = logits_of(runner_of(model), tokens, pieces)
    assert expected.std() > 1
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rope", [{"rope_type": "linear", "factor": 2.0}, {"rope_type": "yarn", "factor": 4.0}])
def test_scaled_ropes_are_those_of_transformers(rope: dict[str, object]) -> None:
    model = make_target("llama", rope_parameters={"rope_theta": 10_000.0, **rope})
    tokens = torch.randint(48, (2, 100))
    with torch.inference_mode():
        torch.testing.assert_close(logits_of(runner_of(model), tokens, [100]), model(tokens).logits, atol=1e-4, rtol=0)


def test_bfloat16_is_close_to_transformers() -> None:
    model = make_target().bfloat16()
    runner = Runner(model.config, LIKE.bfloat16(), drafting=False)
    runner.target.load(model.state_dict())
    tokens = torch.randint(48, (2, 30))
    with torch.inference_mode():
        expected = model(tokens).logits.float()
        error = (logits_of(runner, tokens, [30]) - expected).abs().mean()
    assert error < 0.02 * expected.std()


@pytest.mark.parametrize("family", SHAPES)
def test_served_drafter_is_the_trained_one(family: str) -> None:
    model = make_target(family)
    trained = Drafter(model.config).eval()
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    runner = runner_of(model, drafting=True)
    assert runner.drafter
    runner.drafter.load(trained.state_dict())
    embedded, features = torch.randn(2, 3, 40, 64)
    runner.reserve(3, 40)
    positions = torch.arange(40).expand(3, 40)
    served = []
    with torch.inference_mode():
        expected = trained(embedded, features, positions)
        for piece in torch.split(positions, [20, 1, 19], 1):
            step = runner.cache.plan(Placement(piece, int(piece.max()) + 1, drafter=True))
            part = slice(int(piece[0, 0]), int(piece[0, -1]) + 1)
            served.append(runner.drafter.features(embedded[:, part].flatten(0, 1), features[:, part].flatten(0, 1), step).view(3, -1, 64))
    torch.testing.assert_close(torch.cat(served, 1), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("qwen2", {"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 0}, "use_sliding_window"),
        ("qwen3", {"attention_bias": True}, "attention_bias"),
        ("llama", {"mlp_bias": True}, "mlp_bias"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "rope type 'dynamic'"),
    ],
)
def test_what_is_not_supported_is_refused(family: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Runner(make_target(family, **change).config, LIKE, drafting=False)


def test_weights_that_do_not_fit_change_nothing() -> None:
    model = make_target()
    runner = runner_of(model)
    tokens = torch.randint(48, (1, 5))
    with torch.inference_mode():
        before = logits_of(runner, tokens, [5])
    weights = {name: weight + 1 for name, weight in model.state_dict().items()}
    for name, weight, message in (
        ("model.norm.weight", torch.zeros(63), r"model\.norm\.weight has shape \[63\], the model needs \[64\]"),
        ("model.layers.2.mlp.up_proj.weight", torch.zeros(128, 64), r"unknown \['model\.layers\.2\.mlp\.up_proj\.weight'\]"),
    ):
        with pytest.raises(ModelError, match=message):
            runner.target.load(weights | {name: weight})
    with pytest.raises(ModelError, match=r"missing \['model\.norm\.weight'\]"):
        runner.target.load({name: weight for name, weight in weights.items() if name != "model.norm.weight"})
    with torch.inference_mode():
        torch.testing.assert_close(logits_of(runner, tokens, [5]), before, atol=0, rtol=0)
