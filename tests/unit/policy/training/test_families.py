"""What the learner does with a model of any family: packed or padded it computes the same, and what it exports can be loaded."""

import random
from pathlib import Path

import pytest
import torch
from models_for_tests import Family, make_random_model
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    GPT2Config,
    GPTNeoXJapaneseConfig,
    OPTConfig,
    PreTrainedConfig,
    Starcoder2Config,
)

from engine.config.learner import LearnerConfig
from engine.errors import ConfigError
from engine.models.checksum import checksum
from engine.models.families import FAMILIES
from engine.models.load import load_model
from engine.models.weights import base_weights
from engine.policy.training.microbatches import microbatches
from engine.policy.training.policy import checkpoint_activations
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.training_row import TrainingRow

CPU = torch.device("cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_rows_have_the_law_and_the_gradients_of_padded_ones(tmp_path: Path, family: Family) -> None:
    """Rows that are shorter and longer than a sliding window; the first three share their prompt."""
    folder = make_random_model(tmp_path, family)
    draw = random.Random(0)
    shared = tuple(draw.choices(range(3, 200), k=30))
    prompts_and_lengths = ((shared, 60), (shared, 12), (shared, 100), ((5,), 40))
    rows = [
        TrainingRow((*prompt, *draw.choices(range(3, 200), k=length)), len(prompt), 0.0, (0.0,) * length)
        for prompt, length in prompts_and_lengths
    ]
    found = []
    for packed in (False, True):
        model = load_model(folder, torch.float32)
        policy = ReplicatedPolicy(model, LearnerConfig(packed=packed), 1.0, CPU, None, with_reference=False)
        policy.zero_gradients()
        logprobs: dict[int, torch.Tensor] = {}
        for batch in microbatches(rows, 1000, CPU, packed):
            values, _ = policy.forward(batch)
            values.sum().backward()  # type: ignore[no-untyped-call]
            logprobs |= dict(zip(batch.rows, batch.split(values.detach()), strict=True))
        found.append([*(logprobs[row] for row in range(4)), *(weight.grad for weight in policy.trained().values())])
    for ours, theirs in zip(*found, strict=True):
        assert theirs is not None
        torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_policy_is_the_one_in_training(tmp_path: Path, family: Family) -> None:
    model = load_model(make_random_model(tmp_path / "first", family), torch.float32)
    policy = ReplicatedPolicy(model, LearnerConfig(), 1.0, CPU, None, with_reference=False)
    policy.export(tmp_path / "exported")
    (tmp_path / "first" / "tokenizer.json").rename(tmp_path / "exported" / "tokenizer.json")
    assert checksum(base_weights(load_model(tmp_path / "exported", torch.float32)).values()) == policy.checksum()


GPT2 = GPT2Config(vocab_size=200, n_embd=32, n_layer=2, n_head=2)
FALCON = FalconConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, hidden_dropout=0.1, attention_dropout=0.1)
OPT = OPTConfig(
    vocab_size=200, hidden_size=32, num_hidden_layers=2, ffn_dim=64, num_attention_heads=2, word_embed_proj_dim=32, layerdrop=0.5
)
STARCODER2 = Starcoder2Config(
    vocab_size=200,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    attention_dropout=0.1,
    residual_dropout=0.1,
    embedding_dropout=0.1,
)


@pytest.mark.parametrize("other", [FALCON, GPT2, OPT, STARCODER2], ids=lambda config: config.model_type)
def test_activations_that_are_computed_again_bring_no_dropout_back(other: PreTrainedConfig) -> None:
    """Families that only SGLang generates with drop a tenth wherever they are trained, by default or as published, and some whole
    layers."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(other).eval()  # type: ignore[no-untyped-call]
    tokens = torch.randint(3, 200, (2, 40))
    expected = model(tokens, use_cache=False).logits
    gradients = torch.autograd.grad(expected.sum(), list(model.parameters()))
    checkpoint_activations(model, LearnerConfig(activation_checkpointing=True))
    inside = next(module for name, module in model.named_modules() if ".0." in name and isinstance(module, torch.nn.LayerNorm))
    trains: list[bool] = []
    inside.register_forward_hook(lambda *_: trains.append(model.training))
    found = model(tokens, use_cache=False).logits
    assert torch.equal(found, expected)
    for ours, theirs in zip(torch.autograd.grad(found.sum(), list(model.parameters())), gradients, strict=True):
        assert torch.equal(ours, theirs)
    assert trains == [False, False], "it is computed again, and not as it would be in training"


def test_a_model_whose_activations_cannot_be_computed_again_is_refused() -> None:
    config = GPTNeoXJapaneseConfig(vocab_size=200, hidden_size=32, num_hidden_layers=1, num_attention_heads=2)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    with pytest.raises(ConfigError, match=r"^cluster\.learner\.activation_checkpointing: .* gpt_neox_japanese .*; set it to false$"):
        checkpoint_activations(model, LearnerConfig(activation_checkpointing=True))
