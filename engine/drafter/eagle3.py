"""The EAGLE-3 drafter (arXiv 2503.01840): three hidden states of the target fused into one, and features that need not be the target's."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PretrainedConfig, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from engine.drafter.kind import DrafterKind
from engine.drafter.layout import DrafterLayout
from engine.drafter.model import DEFAULT, Drafter, drafter_config
from engine.drafter.vocabulary import vocabulary_of
from engine.models.families import FAMILIES
from engine.models.packed_attention import Mask, PassHistory, Past
from engine.models.weights import base_weights, whole


class Eagle3Drafter(Drafter):
    """A llama layer whatever the target's family, as other engines expect; its attention reads (embedding, feature), both normed.

    State dict: ``fc.weight`` [H, 3H], ``midlayer.*`` with q, k and v projections of [.., 2H] and the norms ``input_layernorm`` (of the
    embedding) and ``hidden_norm`` (of the feature), and ``norm.weight``, the norm before the head.
    """

    kind: DrafterKind = "eagle3"

    def _build(self, target: PretrainedConfig) -> None:
        self.config = config = drafter_config(self.layout, target)
        assert isinstance(config, LlamaConfig)
        hidden = config.hidden_size
        self.fc = nn.Linear(3 * hidden, hidden, bias=False)
        if self.layout.fc_norm:
            self.fc_norm = nn.ModuleList([LlamaRMSNorm(hidden, self.config.rms_norm_eps) for _ in range(3)])
        self.midlayer = LlamaDecoderLayer(config, 0)
        for name in ("q_proj", "k_proj", "v_proj"):
            outputs = getattr(self.midlayer.self_attn, name).out_features
            setattr(self.midlayer.self_attn, name, nn.Linear(2 * hidden, outputs, bias=False))
        self.midlayer.hidden_norm = LlamaRMSNorm(hidden, self.config.rms_norm_eps)
        self.norm = LlamaRMSNorm(hidden, self.config.rms_norm_eps)
        self.rotary = LlamaRotaryEmbedding(config)

    def fuse(self, captured: Tensor) -> Tensor:
        captured = captured[..., : self.fc.in_features]
        if self.layout.fc_norm:
            captured = torch.cat([norm(part) for norm, part in zip(self.fc_norm, captured.chunk(3, -1), strict=True)], -1)
        fused: Tensor = self.fc(captured)
        return fused

    def readout(self, features: Tensor) -> Tensor:
        normed: Tensor = features if self.layout.norm_output else self.norm(features)
        return normed

    @property
    def _attention(self) -> nn.Module:
        return self.midlayer.self_attn

    def _inputs(self, embedded: Tensor, features: Tensor) -> Tensor:
        layer: Any = self.midlayer
        return torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(features)), dim=-1)

    def forward(
        self,
        embedded: Tensor,
        features: Tensor,
        positions: Tensor,
        mask: Mask = None,
        history: PassHistory | None = None,
        past: Past | None = None,
    ) -> Tensor:
        layer: Any = self.midlayer
        inputs = self._inputs(embedded, features)
        normed = inputs.chunk(2, dim=-1)[1]
        rotary = self.rotary(features, positions)
        attended: Tensor = layer.self_attn(inputs, position_embeddings=rotary, attention_mask=mask, history=history, past=past)[0]
        hidden = (normed if self.layout.norm_before_residual else features) + attended
        output: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self.norm(output) if self.layout.norm_output else output


def make_drafter(kind: DrafterKind, target: PretrainedConfig, vocabulary: Tensor | None = None, layout: DrafterLayout = DEFAULT) -> Drafter:
    """A drafter of ``kind`` with random weights. ModelError if there is none for such a target, or ``vocabulary`` is none of its."""
    return (Eagle3Drafter if kind == "eagle3" else Drafter)(target, vocabulary, layout)


def drafter_of(weights: Mapping[str, Tensor], target: PretrainedConfig) -> Drafter:
    """The drafter of ``weights``, whatever their layout. ModelError if there is none for such a target, or it has not the vocabulary."""
    layout = DrafterLayout.of(weights)
    drafter = make_drafter(layout.kind, target, vocabulary_of(weights), layout)
    drafter.load_state_dict(weights)
    return drafter


@torch.no_grad()
def first_drafter(kind: DrafterKind, target: PreTrainedModel, vocabulary: Tensor | None = None) -> Drafter:
    """What training starts from where there is no drafter yet, on ``target``'s device: an EAGLE drafter's layer is the target's last
    one, which made the features that it is to predict, if that is such a layer; EAGLE-3's norm is the target's, which its head is used to.
    The rest is random."""
    drafter = make_drafter(kind, target.config, vocabulary)
    weights = base_weights(target)
    if isinstance(drafter, Eagle3Drafter):
        family = FAMILIES.get(target.config.model_type)
        drafter.norm.weight.copy_(whole(weights["model.norm.weight"]) + (family is not None and family.gemma))
    else:
        layer, last = drafter.layers[0], f"model.layers.{target.config.num_hidden_layers - 1}."
        theirs = {name.removeprefix(last): weight for name, weight in weights.items() if name.startswith(last)}
        theirs.pop("input_layernorm.weight", None)
        if theirs.keys() == layer.state_dict().keys():  # a Gemma's has more norms, and computes something else with the same names
            layer.load_state_dict({name: whole(weight) for name, weight in theirs.items()})
    return drafter.to(target.device)
