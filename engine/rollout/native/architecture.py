"""The shapes of a decoder and its rotary tables, from a Hugging Face configuration."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import LlamaConfig, PretrainedConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from engine.errors import ModelError

FAMILIES = ("qwen2", "qwen3", "llama")
FIXED_ROPES = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Architecture:
    """A pre-norm decoder with rotary positions, grouped-query attention and a gated SiLU feed-forward network."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    eps: float
    tied: bool
    qkv_bias: bool
    qk_norm: bool

    @classmethod
    def of(cls, config: PretrainedConfig) -> "Architecture":
        """ModelError if the engine would compute something else than the model does."""
        family = config.model_type
        if family not in FAMILIES:
            raise ModelError(f"model type {family!r} is not supported; choose one of {', '.join(FAMILIES)}")
        for setting in ("attention_bias", "mlp_bias", "use_sliding_window"):
            if getattr(config, setting, False):
                raise ModelError(f"{family} with {setting}=true is not supported")
        if config.hidden_act != "silu":
            raise ModelError(f"{family} with hidden_act={config.hidden_act!r} is not supported, only 'silu'")
        return cls(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            vocabulary=config.vocab_size,
            eps=config.rms_norm_eps,
            tied=config.tie_word_embeddings,
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
        )


class Rotary:
    """Rotary positions with the scaling that transformers computes, for ``like``'s device and data type."""

    def __init__(self, config: PretrainedConfig, like: Tensor) -> None:
        rope = config.rope_parameters["rope_type"]
        if rope not in FIXED_ROPES:
            raise ModelError(f"rope type {rope!r} is not supported; choose one of {', '.join(FIXED_ROPES)}")
        self._embedding = LlamaRotaryEmbedding(cast(LlamaConfig, config)).to(like.device)
        self._like = like

    def tables(self, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of positions 0 .. ``positions`` - 1, each [positions, 1, head_dim].

        The first half of a sine is negated, so that x is rotated by ``x * cosine + x.roll(head_dim // 2, -1) * sine``.
        """
        cosine, sine = self._embedding(self._like, torch.arange(positions, device=self._like.device)[None])
        half = sine.shape[-1] // 2
        return cosine.transpose(0, 1), torch.cat((-sine[..., :half], sine[..., half:]), -1).transpose(0, 1)
