"""The shapes of a decoder and its rotary tables, from a Hugging Face configuration."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.errors import ModelError
from engine.models.families import FAMILIES, LISTED

FULL, SLIDING = "full_attention", "sliding_attention"
ACTIVATIONS: dict[str, Literal["silu", "gelu_tanh"]] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
FIXED_ROPES = ("default", "linear", "llama3", "yarn", "longrope")
UNSUPPORTED = (
    "attention_bias",
    "mlp_bias",
    "use_sliding_window",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_bidirectional_attention",
)
SHORTEST_WINDOW = 64
"""More than a draft tree is deep, so that a draft sees all drafts before it."""


@dataclass(frozen=True)
class Experts:
    """Of a mixture of ``number`` gated networks, each ``intermediate`` wide, a token takes ``per_token``. Their shares sum to 1 if
    ``normalised``. ``layers`` are those that have them."""

    number: int
    per_token: int
    intermediate: int
    normalised: bool
    layers: frozenset[int]


@dataclass(frozen=True)
class Architecture:
    """A pre-norm decoder with rotary positions, grouped-query attention and a gated feed-forward network.

    ``rotary`` of the ``head_dim`` numbers are rotated; scores are times ``scale``. ``layer_types`` of each layer are FULL, or SLIDING: such
    a layer sees the last ``window`` positions. ``fused`` and ``gemma``: see Family.
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    rotary: int
    vocabulary: int
    eps: float
    scale: float
    activation: Literal["silu", "gelu_tanh"]
    layer_types: tuple[str, ...]
    window: int | None
    experts: Experts | None
    tied: bool
    qkv_bias: bool
    qk_norm: bool
    fused: bool
    gemma: bool

    @classmethod
    def of(cls, config: PretrainedConfig) -> "Architecture":
        """ModelError if the engine would compute something else than the model does."""
        name = config.model_type
        if name not in FAMILIES:
            raise ModelError(f"model type {name!r} is not supported; choose one of {LISTED}")
        family = FAMILIES[name]
        for setting in UNSUPPORTED:
            if getattr(config, setting, None):
                raise ModelError(f"{name} with {setting}={str(getattr(config, setting)).lower()} is not supported")
        activation = config.hidden_activation if family.gemma else config.hidden_act
        if activation not in ACTIVATIONS:
            raise ModelError(f"{name} with hidden_act={activation!r} is not supported, only {', '.join(map(repr, ACTIVATIONS))}")
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        types = _layer_types(config)
        window = config.sliding_window if SLIDING in types else None
        if window is not None and window < SHORTEST_WINDOW:
            raise ModelError(f"{name} with sliding_window={window} is not supported, only {SHORTEST_WINDOW} and more")
        return cls(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            intermediate=config.intermediate_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=head_dim,
            rotary=int(head_dim * config.rope_parameters.get("partial_rotary_factor", 1.0)),
            vocabulary=config.vocab_size,
            eps=config.rms_norm_eps,
            scale=(config.query_pre_attn_scalar if family.gemma else head_dim) ** -0.5,
            activation=ACTIVATIONS[activation],
            layer_types=types,
            window=window,
            experts=_experts(config) if family.experts else None,
            tied=config.tie_word_embeddings,
            qkv_bias=family.qkv_bias,
            qk_norm=family.qk_norm,
            fused=family.fused,
            gemma=family.gemma,
        )

    @property
    def attention_types(self) -> tuple[str, ...]:
        """Those of the layers, each once."""
        return tuple(sorted(set(self.layer_types)))

    @property
    def norm_offset(self) -> float:
        """What norms add to their weight."""
        return 1.0 if self.gemma else 0.0


def _layer_types(config: PretrainedConfig) -> tuple[str, ...]:
    types = getattr(config, "layer_types", None)
    everywhere = SLIDING if getattr(config, "sliding_window", None) else FULL
    return tuple(types) if types else (everywhere,) * config.num_hidden_layers


def _experts(config: PretrainedConfig) -> Experts:
    step, dense = config.decoder_sparse_step, config.mlp_only_layers
    return Experts(
        number=config.num_experts,
        per_token=config.num_experts_per_tok,
        intermediate=config.moe_intermediate_size,
        normalised=config.norm_topk_prob,
        layers=frozenset(layer for layer in range(config.num_hidden_layers) if (layer + 1) % step == 0 and layer not in dense),
    )


class Rotary:
    """Rotary positions of each type of attention, with the scaling that transformers computes, for ``like``'s device and data type.

    That of ``longrope`` is the one of sequences within the length that the model was first trained with.
    """

    def __init__(self, config: PretrainedConfig, like: Tensor) -> None:
        types = Architecture.of(config).attention_types
        self._frequencies = [_frequencies(config, each, like.device) for each in types]
        self._like = like

    def tables(self, positions: int) -> list[tuple[Tensor, Tensor]]:
        """Of each type cosines and sines of positions 0 .. ``positions`` - 1, each [positions, 1, rotary].

        The first half of a sine is negated, so that x is rotated by ``x * cosine + x.roll(rotary // 2, -1) * sine``.
        """
        counted = torch.arange(positions, device=self._like.device, dtype=torch.float32)[:, None, None]
        return [self._table(counted * frequencies, scaling) for frequencies, scaling in self._frequencies]

    def _table(self, angles: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
        cosine, sine = angles.cos() * scaling, angles.sin() * scaling
        return torch.cat((cosine, cosine), -1).to(self._like.dtype), torch.cat((-sine, sine), -1).to(self._like.dtype)


def _frequencies(config: PretrainedConfig, attention_type: str, device: torch.device) -> tuple[Tensor, float]:
    """Of half of the rotated numbers, float32, and what cosines and sines are multiplied by. ModelError if they depend on the length."""
    parameters: dict[str, Any] = config.rope_parameters
    by_type = {"layer_type": attention_type} if attention_type in parameters else {}
    parameters = parameters[attention_type] if by_type else parameters
    rope = parameters["rope_type"]
    if rope not in FIXED_ROPES:
        raise ModelError(f"rope type {rope!r} is not supported; choose one of {', '.join(FIXED_ROPES)}")
    if rope != "default":
        frequencies, scaling = ROPE_INIT_FUNCTIONS[rope](config, device, **by_type)
        return frequencies, scaling
    rotary = Architecture.of(config).rotary
    return parameters["rope_theta"] ** -(torch.arange(0, rotary, 2, device=device, dtype=torch.float32) / rotary), 1.0
