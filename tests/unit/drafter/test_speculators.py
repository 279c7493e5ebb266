"""Exports of the speculators format, which vLLM reads, in the code that the format is of: what it drafts from them, and what it writes."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from layout_cases import LAYOUTS, equal, random_weights
from torch import Tensor
from transformers import Qwen2ForCausalLM

from engine.drafter.eagle3 import drafter_of
from engine.drafter.export import load_drafter_folder, write_serving_folder
from engine.drafter.kind import captured_layers, drafter_kind
from engine.drafter.model_card import DrafterCard

OF_EAGLE3 = [name for name, layout in LAYOUTS.items() if layout.kind == "eagle3"]
Weights = dict[str, Tensor]


@pytest.fixture(scope="module")
def speculators() -> Any:
    if find_spec("speculators") is None:
        pytest.skip("speculators is not installed")
    return import_module("speculators")


@pytest.mark.parametrize("name", OF_EAGLE3)
def test_it_drafts_what_ours_drafts(tmp_path: Path, speculators: Any, target: Qwen2ForCausalLM, name: str) -> None:
    weights = random_weights(LAYOUTS[name], target.config)
    model = speculator(speculators, tmp_path, target, weights)
    assert model.config.eagle_aux_hidden_state_layer_ids == list(captured_layers("eagle3", target.config.num_hidden_layers))
    tokens, captured = torch.tensor([[7, 3, 40, 11, 9]]), torch.randn(1, 5, 3 * target.config.hidden_size)
    ours = first_and_second_draft(weights, target, tokens, captured)
    for theirs, logits in zip(logits_of_two_drafts(model, tokens, captured), ours, strict=True):
        torch.testing.assert_close(theirs[:, : logits.shape[1]], logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OF_EAGLE3)
def test_what_it_writes_is_read_to_the_bit(tmp_path: Path, speculators: Any, target: Qwen2ForCausalLM, name: str) -> None:
    weights = random_weights(LAYOUTS[name], target.config)
    model = speculator(speculators, tmp_path, target, weights)
    model.save_pretrained(tmp_path / "theirs")
    assert drafter_kind(tmp_path / "theirs") == "eagle3"
    found = load_drafter_folder(tmp_path / "theirs", target.config, "eagle3")
    embedding = {"embed_tokens.weight": target.model.embed_tokens.weight}  # which it always writes
    assert equal(found, embedding | weights), "a head that the export copied from the target is the target's still"


def speculator(speculators: Any, folder: Path, target: Qwen2ForCausalLM, weights: Weights) -> Any:
    """Theirs, of an export of ``weights``."""
    target.save_pretrained(folder / "target")
    (folder / "out").mkdir()
    card = DrafterCard(str(folder / "target"), "countdown", 0)
    write_serving_folder(folder / "out", weights, target.config, target.lm_head.weight, card, "vllm")
    config = speculators.SpeculatorModelConfig.from_pretrained(folder / "out")
    config.transformer_layer_config._attn_implementation = "eager"  # theirs for a CPU
    model = speculators.SpeculatorModel.from_pretrained(folder / "out", config=config).eval()
    if "embed_tokens.weight" not in weights:  # the target's; what from_pretrained leaves in its place is no NaN, as theirs expects
        model._load_verifier_weights(overwrite_embed_tokens=True)
    return model


@torch.no_grad()
def logits_of_two_drafts(model: Any, tokens: Tensor, captured: Tensor) -> list[Tensor]:
    """Theirs, [1, T, D] for each draft: the first one after each token, and the one after that, which had the right token in between."""
    seen: list[Tensor] = []
    model.lm_head.register_forward_hook(lambda _module, _given, logits: seen.append(logits))
    model(captured, tokens, torch.zeros_like(tokens), ttt_steps=2)
    return seen


@torch.no_grad()
def first_and_second_draft(weights: Weights, target: Qwen2ForCausalLM, tokens: Tensor, captured: Tensor) -> tuple[Tensor, Tensor]:
    """Ours: logits [1, T, D] of the first drafts, and those [1, 1, D] of the second after the first token."""
    drafter = drafter_of(weights, target.config)
    drafter.load_state_dict(weights)
    ids = drafter.vocabulary
    head = drafter.head(target.lm_head.weight if ids is None else target.lm_head.weight[ids])
    embedded, fused = drafter.embed(tokens, target.model.embed_tokens.weight), drafter.fuse(captured)
    first = drafter(embedded, fused, torch.arange(tokens.shape[1])[None])
    features = torch.stack((fused[:, 0], first[:, 0]), dim=1)
    second = drafter(embedded[:, :2], features, torch.arange(2)[None])[:, 1:]
    return drafter.readout(first) @ head.T, drafter.readout(second) @ head.T
