import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GPT2Config, PretrainedConfig, Qwen2ForCausalLM
from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

from engine.drafter.model import Drafter
from engine.errors import ModelError


def by_hand(weights: dict[str, Tensor], config: PretrainedConfig, embedded: Tensor, features: Tensor) -> Tensor:
    """The Qwen2 drafter on one sequence [T, H] in plain tensor arithmetic."""
    layer = {name.removeprefix("layers.0."): tensor for name, tensor in weights.items()}
    hidden = torch.cat((embedded, features), -1) @ layer["fc.weight"].T
    size, heads, length = config.hidden_size // config.num_attention_heads, config.num_attention_heads, len(hidden)

    def project(name: str) -> Tensor:
        flat = hidden @ layer[f"self_attn.{name}_proj.weight"].T + layer[f"self_attn.{name}_proj.bias"]
        return flat.view(length, -1, size).transpose(0, 1)

    frequencies = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
    query, key = apply_rotary_pos_emb(project("q"), project("k"), angles.cos(), angles.sin(), unsqueeze_dim=0)
    repeats = heads // config.num_key_value_heads
    key, value = key.repeat_interleave(repeats, 0), project("v").repeat_interleave(repeats, 0)
    scores = query @ key.transpose(1, 2) / size**0.5
    scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -torch.inf)
    attended = (scores.softmax(-1) @ value).transpose(0, 1).reshape(length, -1) @ layer["self_attn.o_proj.weight"].T
    hidden = hidden + attended
    normed = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps) * layer["post_attention_layernorm.weight"]
    gate = torch.nn.functional.silu(normed @ layer["mlp.gate_proj.weight"].T) * (normed @ layer["mlp.up_proj.weight"].T)
    predicted: Tensor = hidden + gate @ layer["mlp.down_proj.weight"].T
    return predicted


def test_forward_is_the_layer_written_by_hand(target: Qwen2ForCausalLM) -> None:
    torch.manual_seed(0)
    drafter = Drafter(target.config)
    for parameter in drafter.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    embedded, features = torch.randn(2, 11, 32)
    output = drafter(embedded[None], features[None], torch.arange(11)[None])[0]
    torch.testing.assert_close(output, by_hand(drafter.state_dict(), target.config, embedded, features), atol=1e-5, rtol=1e-4)


def test_weights_have_the_targets_names_and_shapes(family: PretrainedConfig) -> None:
    ours = {name: tensor.shape for name, tensor in Drafter(family).state_dict().items()}
    theirs = {name: tensor.shape for name, tensor in AutoModelForCausalLM.from_config(family).model.state_dict().items()}  # type: ignore[no-untyped-call]
    assert ours.pop("fc.weight") == (32, 64)
    assert ours == {name: theirs[name] for name in theirs if name.startswith("layers.0.") and "input_layernorm" not in name}


def test_starts_close_to_passing_features_through(family: PretrainedConfig) -> None:
    torch.manual_seed(0)
    embedded, features = torch.randn(2, 1, 9, 32)
    output = Drafter(family)(0.1 * embedded, features, torch.arange(9)[None])
    assert torch.nn.functional.cosine_similarity(output, features, dim=-1).mean() > 0.7


def test_unsupported_family_is_refused() -> None:
    with pytest.raises(ModelError, match=r"gpt2.*has no intermediate_size"):
        Drafter(GPT2Config())
