"""The EAGLE-3 drafter as the engine runs it; engine/drafter/eagle3.py is the same in training."""

import torch
from torch import Tensor

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
        self._captured = 3 * a.hidden

    def _parts(self) -> tuple[Linear | DecoderLayer | RMSNorm, ...]:
        return self._fuse, self._layer, self._embedding_norm, self._feature_norm, self._norm

    def _named(self) -> dict[str, Tensor]:
        return {f"midlayer.{name}": view for name, view in self._layer.parameters().items()} | {
            "fc.weight": self._fuse.weight,
            "midlayer.input_layernorm.weight": self._embedding_norm.weight,
            "midlayer.hidden_norm.weight": self._feature_norm.weight,
            "norm.weight": self._norm.weight,
        }

    def fuse(self, captured: Tensor) -> Tensor:
        return self._fuse(captured[:, : self._captured])

    def features(self, embedded: Tensor, features: Tensor, step: ForwardPass) -> Tensor:
        return self._layer(features, step, 0, self._inputs(embedded, features))

    def fill(self, embedded: Tensor, features: Tensor, step: ForwardPass) -> None:
        self._layer.fill(self._inputs(embedded, features), step, 0)

    def readout(self, features: Tensor) -> Tensor:
        return self._norm(features)

    def _inputs(self, embedded: Tensor, features: Tensor) -> Tensor:
        return torch.cat((self._embedding_norm(embedded), self._feature_norm(features)), -1)
