"""The target and the drafter as the engine runs them: fused weights, rows in, rows out."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.drafter.layout import BIAS, EMBEDDING, HEAD, DrafterLayout
from engine.drafter.vocabulary import D2T, check_vocabulary, token_ids, vocabulary_of
from engine.errors import ModelError
from engine.models.weights import gathered
from engine.rollout.native.architecture import Architecture
from engine.rollout.native.decoder_layer import DecoderLayer, ForwardPass, RMSNorm
from engine.rollout.native.linear import Linear, activations

TOO_LARGE = "has values beyond those of float16 (65504): set model.dtype to float32 or bfloat16"
DEFAULT = DrafterLayout()
NOT_FINITE = "is not finite any more: training has diverged; lower the learning rate"


class TargetModel:
    """The policy. Its features are the hidden states after the final norm, behind those that a drafter wants captured."""

    def __init__(self, architecture: Architecture, like: Tensor, captured: Sequence[int] = ()) -> None:
        """Empty weights on ``like``'s device, in its data type. The inputs of the layers ``captured``, rising, are features, too."""
        self._hidden, self._captured = architecture.hidden, tuple(captured)
        self._tied = architecture.tied
        self._embedding = like.new_empty(architecture.vocabulary, architecture.hidden)
        self._layers = [DecoderLayer(architecture, like, number) for number in range(architecture.layers)]
        self._norm = RMSNorm(architecture.hidden, architecture.eps, like, architecture.norm_offset)
        self._embedding_scale = architecture.hidden**0.5 if architecture.gemma else None
        self._head = Linear(architecture.hidden, architecture.vocabulary, like, weight=self._embedding if self._tied else None)
        self._computes = activations(like).dtype

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copies Hugging Face weights in. ModelError: see ``copy_weights``."""
        if self._tied:
            weights = {name: weight for name, weight in weights.items() if name != "lm_head.weight"}
        copy_weights("target", weights, self.parameters())
        for layer in self._layers:
            layer.pack()
        self._norm.pack()
        self._head.pack()

    def parameters(self) -> dict[str, Tensor]:
        """Views of the weights by their Hugging Face names; a tied head has none of its own."""
        named = {"model.embed_tokens.weight": self._embedding, "model.norm.weight": self._norm.weight}
        for i, layer in enumerate(self._layers):
            named |= {f"model.layers.{i}.{name}": view for name, view in layer.parameters().items()}
        return named if self._tied else named | {"lm_head.weight": self._head.weight}

    def embed(self, tokens: Tensor) -> Tensor:
        """[R] to [R, hidden], as a drafter reads them: a Gemma's without the scale."""
        return self._embedding.index_select(0, tokens).to(self._computes)

    def features(self, tokens: Tensor, step: ForwardPass) -> Tensor:
        """Runs tokens [R] and extends the cache by them; [R, width], the last ``hidden`` of them after the final norm."""
        x = self.embed(tokens)
        if self._embedding_scale:
            x = x * self._embedding_scale
        captured: list[Tensor] = []
        for i, layer in enumerate(self._layers):
            captured += [x] * self._captured.count(i)
            x = layer(x, step, i)
        return torch.cat((*captured, self._norm(x)), -1) if captured else self._norm(x)

    @property
    def head(self) -> Tensor:
        """[vocabulary, hidden]."""
        return self._head.weight

    def logits(self, features: Tensor) -> Tensor:
        """[R, width], or [R, hidden] that a drafter predicted, to float32 [R, vocabulary]."""
        return self._head(features[:, -self._hidden :]).float()


class DraftModel:
    """One decoder layer on (embedding of x[t+1], feature h[t]) that predicts h[t+1]; the shift of engine/drafter/model.py.

    Its keys and values are one more layer of the cache, behind the target's. ``vocabulary`` [D] are the tokens that it drafts from; None:
    all.
    """

    def __init__(self, architecture: Architecture, like: Tensor, layout: DrafterLayout = DEFAULT) -> None:
        """Empty weights of ``layout`` on ``like``'s device, in its data type."""
        self.layout, self._size = layout, architecture.vocabulary
        self.vocabulary: Tensor | None = None
        drafted, numbers = layout.drafted or architecture.vocabulary, partial(torch.zeros, dtype=torch.int64, device=like.device)
        self._constants = {name: numbers(1) for name in layout.in_config} | ({} if layout.drafted is None else {D2T: numbers(drafted)})
        self._head = Linear(architecture.hidden, drafted, like) if layout.head or layout.drafted is not None else None
        self._embedding = like.new_empty(architecture.vocabulary, architecture.hidden) if layout.embedding else None
        self._computes = activations(like).dtype
        self._build(architecture, like)

    def _build(self, architecture: Architecture, like: Tensor) -> None:
        self._fuse = Linear(2 * architecture.hidden, architecture.hidden, like, bias=self.layout.bias)
        self._layer = DecoderLayer(architecture, like, input_norm=False)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copies the drafter's weights in; ``follow`` must come after it. ModelError: see ``copy_weights`` and ``check_vocabulary``."""
        if (ids := vocabulary_of(weights)) is not None:
            check_vocabulary(ids, self._size)
        copy_weights("drafter", weights, self.parameters())
        if D2T in self._constants:
            ids = token_ids(self._constants[D2T])
            self.vocabulary = ids if self.vocabulary is None else self.vocabulary.copy_(ids)  # graphs have its memory in them
        for part in self._parts():
            part.pack()
        if self.layout.head and self._head:
            self._head.pack()

    def follow(self, target: TargetModel) -> None:
        """Takes what it needs of the target's head; to be called when either has new weights."""
        if self._head and not self.layout.head and self.vocabulary is not None:
            torch.index_select(target.head, 0, self.vocabulary, out=self._head.weight)
            self._head.pack()

    def parameters(self) -> dict[str, Tensor]:
        """Views of the weights by their names in a drafter folder."""
        named = self._named()
        if self._fuse.bias is not None:
            named[BIAS] = self._fuse.bias
        if self._embedding is not None:
            named[EMBEDDING] = self._embedding
        if self.layout.head and self._head:
            named[HEAD] = self._head.weight
        return named | self._constants

    def _named(self) -> dict[str, Tensor]:
        return {"fc.weight": self._fuse.weight} | {f"layers.0.{name}": view for name, view in self._layer.parameters().items()}

    def _parts(self) -> tuple[Linear | DecoderLayer | RMSNorm, ...]:
        return self._fuse, self._layer

    def embed(self, tokens: Tensor, target: TargetModel) -> Tensor:
        """[R] to [R, hidden]."""
        return target.embed(tokens) if self._embedding is None else self._embedding.index_select(0, tokens).to(self._computes)

    def fuse(self, captured: Tensor) -> Tensor:
        """The target's features [R, width] as the drafter reads them, [R, hidden]."""
        return captured

    def readout(self, features: Tensor) -> Tensor:
        """Predicted features as the head reads them, [R, hidden]."""
        return features

    def logits(self, features: Tensor, target: TargetModel) -> Tensor:
        """Of predicted features, float32 [R, D]."""
        read = self.readout(features)
        return target.logits(read) if self._head is None else self._head(read).float()

    def features(self, embedded: Tensor, features: Tensor, step: ForwardPass) -> Tensor:
        """Predictions of the next features, [R, hidden]."""
        return self._layer(self._fuse(torch.cat((embedded, features), -1)), step, 0)

    def fill(self, embedded: Tensor, features: Tensor, step: ForwardPass) -> None:
        """Only extends the cache: a layer's keys and values do not depend on what it attends to."""
        self._layer.fill(self._fuse(torch.cat((embedded, features), -1)), step, 0)


@torch.no_grad()
def copy_weights(what: str, weights: Mapping[str, Tensor], views: Mapping[str, Tensor]) -> None:
    """Copies ``weights`` into ``views``; ModelError, and nothing changed, unless names and shapes are the same. ModelError, too, if a
    value is not finite, or too large for float16: the model is of no use then."""
    missing, unknown = sorted(views.keys() - weights.keys()), sorted(weights.keys() - views.keys())
    if missing or unknown:
        raise ModelError(f"{what} weights do not fit the model: missing {missing[:3]}, unknown {unknown[:3]}")
    for name, view in views.items():
        if weights[name].shape != view.shape:
            raise ModelError(f"{what} weight {name} has shape {list(weights[name].shape)}, the model needs {list(view.shape)}")
    refused: list[str] = []
    for name, weight in gathered(weights, next(iter(views.values())).dtype):  # to the end, as other ranks go
        view = views[name].copy_(weight)
        if not view.isfinite().all():
            large = view.dtype == torch.float16 and not weight.isnan().any()
            refused.append(f"{what} weight {name} {TOO_LARGE if large else NOT_FINITE}")
    if refused:
        raise ModelError(refused[0])
