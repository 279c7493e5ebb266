"""The learned drafter (TLT section 4, EAGLE): one decoder layer of the target's own size on the target's last hidden states.

The one shift, in training and in serving: the input at position t is (embedding of token x[t+1], feature h[t]) with rotary
position t; the output predicts h[t+1], whose logits under the target's head predict token x[t+2]. Features are the target's
hidden states after its final norm.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, PretrainedConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RotaryEmbedding

from engine.drafter.kind import DrafterKind
from engine.drafter.layout import ROPE_THETA, DrafterLayout
from engine.drafter.vocabulary import D2T, check_vocabulary, offsets, token_ids
from engine.errors import ModelError
from engine.models.packed_attention import SEGMENTS, KeysAndValues, Mask, PassHistory, Past, keys_and_values

DEFAULT = DrafterLayout()
FAMILIES: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "llama": (LlamaDecoderLayer, LlamaRotaryEmbedding),
    "qwen2": (Qwen2DecoderLayer, Qwen2RotaryEmbedding),
    "qwen3": (Qwen3DecoderLayer, Qwen3RotaryEmbedding),
}
"""Those whose own layer is their EAGLE drafter's; for others it is a llama's."""
SIZES = ("intermediate_size", "num_key_value_heads", "initializer_range", "rms_norm_eps", "rope_parameters")


class Frozen(nn.Module):
    """A matrix that is not trained."""

    weight: Tensor

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(rows, columns))


class Drafter(nn.Module):
    """The drafter's own tensors only: unless its ``layout`` says otherwise, embedding and head are the target's, frozen, and come in as
    arguments.

    What is captured of the target at a position goes through ``fuse``, the layer's output through ``readout`` before the target's head;
    EAGLE needs neither. State dict: ``fc.weight`` [H, 2H] and ``layers.0.*`` with the target's own names, without ``input_layernorm``;
    and ``d2t`` [D], which is not trained, if it drafts from some of the tokens only (see ``vocabulary.py``). What else there may be has
    the names in ``layout.py``.
    """

    kind: DrafterKind = "eagle"
    fc: nn.Linear
    config: PretrainedConfig
    d2t: Tensor | None

    def __init__(self, target: PretrainedConfig, vocabulary: Tensor | None = None, layout: DrafterLayout = DEFAULT) -> None:
        """Random weights; ``target`` is the target's configuration, ``vocabulary`` [D] the tokens to draft from, rising, ``layout`` what
        else it has. ModelError if there is no drafter for such a target, or the vocabulary is not one of its."""
        super().__init__()
        if vocabulary is not None:
            check_vocabulary(vocabulary, target.vocab_size)
        self.layout = replace(layout, kind=self.kind, drafted=None if vocabulary is None else len(vocabulary))
        self._build(target)
        if layout.head:
            self.lm_head = nn.Linear(self.config.hidden_size, self.layout.drafted or self.config.vocab_size, bias=False)
        if layout.embedding:
            self.embed_tokens = Frozen(self.config.vocab_size, self.config.hidden_size)
        self._initialise()
        self.register_buffer(D2T, None if vocabulary is None else offsets(vocabulary))
        for name, number in self.layout.in_config.items():
            self.register_buffer(name, torch.tensor([number]))

    @property
    def vocabulary(self) -> Tensor | None:
        """The tokens [D] that it drafts from, rising; None: all."""
        return None if self.d2t is None else token_ids(self.d2t)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Takes the draft vocabulary of ``state_dict``, or that it has none. ModelError if it is not one of the target's."""
        found: Tensor | None = state_dict.get(D2T)
        if found is not None:
            check_vocabulary(token_ids(found), self.config.vocab_size)
            found = torch.empty_like(found, device=self.fc.weight.device)
        self.d2t = found
        self.layout = replace(self.layout, drafted=None if found is None else len(found))
        return super().load_state_dict(state_dict, strict, assign)

    def _build(self, target: PretrainedConfig) -> None:
        self.config = drafter_config(self.layout, target)
        layer, rotary = FAMILIES[self.config.model_type]
        self.fc = nn.Linear(2 * self.config.hidden_size, self.config.hidden_size, bias=self.layout.bias)
        self.layers = nn.ModuleList([layer(self.config, 0)])
        self.layers[0].input_layernorm = nn.Identity()
        self.rotary = rotary(self.config)

    @torch.no_grad()
    def _initialise(self) -> None:
        """The features pass through ``fc`` and the layer almost unchanged, so training starts from 'h[t+1] is like h[t]'."""
        std = self.config.initializer_range
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.ndim == 2:
                parameter.normal_(std=std)
        self.fc.weight[:, -self.config.hidden_size :] += torch.eye(self.config.hidden_size)

    def embed(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        """Of ``tokens`` [..]; ``embedding`` [V, H] is the target's. [.., H]"""
        return functional.embedding(tokens, self.embed_tokens.weight if self.layout.embedding else embedding)

    def head(self, rows: Tensor) -> Tensor:
        """What makes logits of features, [D, H]; ``rows`` are those of the target's head."""
        return self.lm_head.weight if self.layout.head else rows

    def fuse(self, captured: Tensor) -> Tensor:
        """[.., width] (see ``feature_width``) to the features [.., H] that a draft starts from."""
        return captured

    def readout(self, features: Tensor) -> Tensor:
        """[.., H] to what the head makes logits of, [.., H]."""
        return features

    def keys_and_values(self, embedded: Tensor, features: Tensor, positions: Tensor) -> KeysAndValues:
        """Those of positions, which depend on nothing before them; for the arguments see ``forward``."""
        inputs = self._inputs(embedded, features)
        return keys_and_values(self._attention, inputs, self.rotary(inputs, positions))

    @property
    def _attention(self) -> nn.Module:
        return self.layers[0].self_attn  # type: ignore[return-value]

    def _inputs(self, embedded: Tensor, features: Tensor) -> Tensor:
        """What attention reads."""
        hidden: Tensor = self.fc(torch.cat((embedded, features), dim=-1))
        return hidden

    def forward(
        self,
        embedded: Tensor,
        features: Tensor,
        positions: Tensor,
        mask: Mask = None,
        history: PassHistory | None = None,
        past: Past | None = None,
    ) -> Tensor:
        """Predicted features [B, T, H] of h[t+1].

        ``embedded`` [B, T, H]: embeddings of the next tokens x[t+1]; ``features`` [B, T, H]: h[t], fused; ``positions`` [B, T]: t.
        ``mask`` [B or 1, 1, T, T] is true where attention is allowed; None is causal, and lengths of segments that follow each other
        in T keep these apart. ``history`` and ``past``: see ``attend``.
        """
        hidden = self._inputs(embedded, features)
        rotary = self.rotary(hidden, positions)
        output: Tensor = self.layers[0](hidden, attention_mask=mask, position_embeddings=rotary, history=history, past=past)
        return output


def drafter_config(layout: DrafterLayout, target: PretrainedConfig) -> PretrainedConfig:
    """The configuration of the layer that is a drafter of ``layout``: a llama's for EAGLE-3, as other engines expect, and for a target
    whose layer is no simple one."""
    own = layout.kind == "eagle" and target.model_type in FAMILIES
    config = layer_config(target) if own else llama_layer_config(target)
    if layout.rope_theta is not None:
        config.rope_parameters = {"rope_type": "default", ROPE_THETA: float(layout.rope_theta)}
    return config


def layer_config(target: PretrainedConfig) -> PretrainedConfig:
    """The target's configuration cut down to one full-attention layer."""
    config = copy.deepcopy(target)
    config.num_hidden_layers = 1
    if hasattr(config, "layer_types"):
        config.layer_types = ["full_attention"]
    config._attn_implementation = SEGMENTS
    return config


def llama_layer_config(target: PretrainedConfig) -> LlamaConfig:
    """One llama layer of the target's sizes. Its rotary positions are the target's too, where a llama can have them; else plain ones with
    the target's base. ModelError if the target has no such sizes."""
    if lacking := [name for name in SIZES if getattr(target, name, None) is None]:
        raise ModelError(f"no drafter for model type {target.model_type!r}: it has no {lacking[0]}; set speculation.enabled to false")
    config = LlamaConfig(
        vocab_size=target.vocab_size,
        hidden_size=target.hidden_size,
        intermediate_size=target.intermediate_size,
        num_hidden_layers=1,
        num_attention_heads=target.num_attention_heads,
        num_key_value_heads=target.num_key_value_heads,
        head_dim=getattr(target, "head_dim", None),
        max_position_embeddings=target.max_position_embeddings,
        initializer_range=target.initializer_range,
        rms_norm_eps=target.rms_norm_eps,
        rope_parameters=_llama_rope(target.rope_parameters),
        tie_word_embeddings=target.tie_word_embeddings,
        pad_token_id=target.pad_token_id,
        bos_token_id=target.bos_token_id,
        eos_token_id=target.eos_token_id,
    )
    config._attn_implementation = SEGMENTS
    return config


def _llama_rope(parameters: dict[str, Any]) -> dict[str, Any]:
    parameters = parameters.get("full_attention", parameters)
    whole = parameters.get("partial_rotary_factor", 1.0) == 1.0 and parameters["rope_type"] != "longrope"
    return parameters if whole else {"rope_type": "default", "rope_theta": parameters["rope_theta"]}
