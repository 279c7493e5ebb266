"""The EAGLE-3 drafter as the engine runs it; engine/drafter/eagle3.py is the same in training."""

import torch
from torch import Tensor

from engine.drafter.layout import FC_NORMS
from engine.rollout.native.architecture import Architecture
from engine.rollout.native.decoder_layer import DecoderLayer, ForwardPass, RMSNorm
from engine.rollout.native.linear import Linear
from engine.rollout.native.model import DraftModel


class Eagle3DraftModel(DraftModel):
    """A llama layer whose attention reads (embedding, feature), both normed; the fused layers of the target are its first feature."""

    def _build(self, architecture: Architecture, like: Tensor) -> None:
        a = architecture
        self._fuse = Linear(3 * a.hidden, a.hidden, like)
        self._layer = DecoderLayer(a, like, input_norm=False, inputs=2 * a.hidden)
        self._embedding_norm, self._feature_norm, self._norm = (RMSNorm(a.hidden, a.eps, like) for _ in range(3))
        self._fused_norms = [RMSNorm(a.hidden, a.eps, like) for _ in FC_NORMS] if self.layout.fc_norm else []
        self._captured = 3 * a.hidden

    def _parts(self) -> tuple[Linear | DecoderLayer | RMSNorm, ...]:
        return self._fuse, self._layer, self._embedding_norm, self._feature_norm, self._norm, *self._fused_norms

    def _named(self) -> dict[str, Tensor]:
        return {f"midlayer.{name}": view for name, view in self._layer.parameters().items()} | {
            "fc.weight": self._fuse.weight,
            "midlayer.input_layernorm.weight": self._embedding_norm.weight,
            "midlayer.hidden_norm.weight": self._feature_norm.weight,
            "norm.weight": self._norm.weight,
            **{name: norm.weight for name, norm in zip(FC_NORMS, self._fused_norms, strict=False)},
        }

    def fuse(self, captured: Tensor) -> Tensor:
        captured = captured[:, : self._captured]
        if self._fused_norms:
            parts = zip(self._fused_norms, captured.chunk(3, -1), strict=True)
            captured = torch.cat([norm(part) for norm, part in parts], -1)
        return self._fuse(captured)

    def features(self, embedded: Tensor, features: Tensor, step: ForwardPass) -> Tensor:
        residual = self._feature_norm(features) if self.layout.norm_before_residual else features
        output = self._layer(residual, step, 0, self._inputs(embedded, features))
        return self._norm(output) if self.layout.norm_output else output

    def fill(self, embedded: Tensor, features: Tensor, step: ForwardPass) -> None:
        self._layer.fill(self._inputs(embedded, features), step, 0)

    def readout(self, features: Tensor) -> Tensor:
        return features if self.layout.norm_output else self._norm(features)

    def _inputs(self, embedded: Tensor, features: Tensor) -> Tensor:
        return torch.cat((self._embedding_norm(embedded), self._feature_norm(features)), -1)
