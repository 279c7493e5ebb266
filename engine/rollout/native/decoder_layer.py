"""A decoder layer with fused weights. In a small model every operation costs microseconds of overhead, so there are few."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.architecture import Architecture
from engine.rollout.native.feed_forward import FeedForward, feed_forward
from engine.rollout.native.linear import Linear


class AttentionInputs(NamedTuple):
    """What layers of one type of attention share: ``cosine`` and ``sine`` [R, 1, rotary], and the ``mask`` of the cache's reading."""

    cosine: Tensor
    sine: Tensor
    mask: Any


class Reading(Protocol):
    """How attention reads the cache."""

    def attend(self, query: Tensor, layer: int, mask: Any, scale: float) -> Tensor:
        """``query`` [n, kv_heads, T * heads / kv_heads, head_dim] to the same, by the keys and values that layer ``layer`` has by now."""
        ...


@dataclass(frozen=True)
class ForwardPass:
    """What all layers of a forward pass share: n requests with up to T tokens each, in R rows.

    ``rows`` [R] tells which of the n * T tokens there are, in order; None if all. ``index`` [R] are the rows of the flat cache that are
    written. ``attention`` has one entry per type of attention of the model that runs. One per layer of it has ``store``
    [rows, 2 * kv_heads * head_dim], the flat cache, of which ``reading`` reads the requests' own part.
    """

    requests: int
    tokens: int
    rows: Tensor | None
    index: Tensor
    attention: tuple[AttentionInputs, ...]
    store: tuple[Tensor, ...]
    reading: Reading

    def column(self, token: int) -> "ForwardPass":
        """The pass of one token of each request, of a pass whose masks are dense."""
        assert self.rows is None
        chosen = slice(token, None, self.tokens)
        attention = tuple(
            AttentionInputs(
                given.cosine[chosen],
                given.sine[chosen],
                given.mask.view(self.requests, 1, self.tokens, -1, given.mask.shape[-1])[:, :, token],
            )
            for given in self.attention
        )
        return replace(self, tokens=1, index=self.index[chosen], attention=attention)


class RMSNorm:
    """Divides each row by its root mean square and multiplies it by ``weight`` [size] + ``offset``. ``pack`` after a change of the
    weight."""

    def __init__(self, size: int, eps: float, like: Tensor, offset: float = 0.0) -> None:
        self.weight = like.new_empty(size)
        self._size, self._eps, self._offset = size, eps, offset
        self._root_eps = torch.tensor((size * eps) ** 0.5, device=like.device)
        self._scaled = torch.empty(size, device=like.device)

    def pack(self) -> None:
        self._scaled = (self.weight.float() + self._offset) * self._size**0.5

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return F.rms_norm(x, (self._size,), self.weight, self._eps) if not self._offset else self._with_offset(x)
        # On a CPU F.rms_norm is a chain of small operations that takes twice as long as this one.
        return x.div(torch.linalg.vector_norm(x, 2, -1, True).hypot_(self._root_eps)).mul_(self._scaled)

    def _with_offset(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (self._size,), self.weight.float() + self._offset, self._eps).to(x.dtype)


class Plus(Protocol):
    """A part of a layer."""

    def plus(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` and the part's result for ``x``."""
        ...


class Normed:
    """A part whose result is normed before it is added."""

    def __init__(self, part: Callable[[Tensor], Tensor], norm: RMSNorm) -> None:
        self._part, self._norm = part, norm

    def plus(self, residual: Tensor, x: Tensor) -> Tensor:
        return self._norm(self._part(x)).add_(residual)


class DecoderLayer:
    """Query, key and value are one matrix, and so are gate and up."""

    def __init__(self, architecture: Architecture, like: Tensor, number: int = 0, input_norm: bool = True, inputs: int = 0) -> None:
        """Layer ``number``, with empty weights on ``like``'s device, in its data type. A drafter's layer has no ``input_norm``; that of
        EAGLE-3 attends to ``inputs`` numbers, not to the hidden state."""
        a = self._a = architecture
        self._type = a.attention_types.index(a.layer_types[number])
        self._qkv = Linear(inputs or a.hidden, (a.heads + 2 * a.kv_heads) * a.head_dim, like, bias=a.qkv_bias)
        self._output = Linear(a.heads * a.head_dim, a.hidden, like)
        self._feed_forward = feed_forward(a, number, like)
        sizes = {"input_layernorm": a.hidden} if input_norm else {}
        sizes |= {"post_attention_layernorm": a.hidden}
        if a.gemma:
            sizes |= {"pre_feedforward_layernorm": a.hidden, "post_feedforward_layernorm": a.hidden}
        if a.qk_norm:
            sizes |= {"self_attn.q_norm": a.head_dim, "self_attn.k_norm": a.head_dim}
        self._norms = {name: RMSNorm(size, a.eps, like, a.norm_offset) for name, size in sizes.items()}
        self._input_norm = self._norms.get("input_layernorm")
        self._qk_norms = [self._norms[f"self_attn.{x}_norm"] for x in "qk"] if a.qk_norm else []
        self._attended: Plus = self._output
        self._fed: Plus = self._feed_forward
        self._middle_norm = self._norms["post_attention_layernorm"]
        if a.gemma:
            self._attended = Normed(self._output, self._middle_norm)
            self._fed = Normed(self._feed_forward, self._norms["post_feedforward_layernorm"])
            self._middle_norm = self._norms["pre_feedforward_layernorm"]

    def parameters(self) -> dict[str, Tensor]:
        """Views of the fused weights by their Hugging Face names within the layer. ``pack`` after a change."""
        named = {f"{name}.weight": norm.weight for name, norm in self._norms.items()}
        named |= {"self_attn.o_proj.weight": self._output.weight} | self._feed_forward.parameters()
        if self._a.fused:
            return named | {"self_attn.qkv_proj.weight": self._qkv.weight}
        sizes = [heads * self._a.head_dim for heads in (self._a.heads, self._a.kv_heads, self._a.kv_heads)]
        for part, whole in (("weight", self._qkv.weight), ("bias", self._qkv.bias)):
            if whole is not None:
                named |= {f"self_attn.{x}_proj.{part}": view for x, view in zip("qkv", torch.split(whole, sizes), strict=True)}
        return named

    def pack(self) -> None:
        parts: tuple[RMSNorm | Linear | FeedForward, ...] = (*self._norms.values(), self._qkv, self._output, self._feed_forward)
        for part in parts:
            part.pack()

    def __call__(self, x: Tensor, step: ForwardPass, layer: int, inputs: Tensor | None = None) -> Tensor:
        """[R, hidden] to [R, hidden]; writes the rows' keys and values into layer ``layer`` of the cache. ``inputs`` as in the
        constructor, [R, inputs], if they are not ``x``."""
        qkv = self._project(x if inputs is None else inputs, step, layer)
        x = self._attended.plus(x, self._attend(qkv[:, : self._a.heads], step, layer))
        return self._fed.plus(x, self._middle_norm(x))

    def fill(self, x: Tensor, step: ForwardPass, layer: int) -> None:
        """Only writes keys and values, for rows whose output nobody needs."""
        self._project(x, step, layer)

    def _project(self, x: Tensor, step: ForwardPass, layer: int) -> Tensor:
        """Queries, keys and values [R, heads + 2 * kv_heads, head_dim], the latter two also in the cache."""
        a = self._a
        qkv = self._qkv(self._input_norm(x) if self._input_norm else x).view(-1, a.heads + 2 * a.kv_heads, a.head_dim)
        qk = qkv[:, : a.heads + a.kv_heads]
        if self._qk_norms:
            for heads, norm in zip(torch.split(qk, [a.heads, a.kv_heads], 1), self._qk_norms, strict=True):
                heads.copy_(norm(heads))
        if a.rotary < a.head_dim:
            qk = qk[..., : a.rotary]
        halves_swapped = qk.roll(a.rotary // 2, -1)
        given = step.attention[self._type]
        qk.mul_(given.cosine).addcmul_(halves_swapped, given.sine)
        step.store[layer].index_copy_(0, step.index, qkv[:, a.heads :].flatten(1))
        return qkv

    def _attend(self, query: Tensor, step: ForwardPass, layer: int) -> Tensor:
        """[R, heads, head_dim] to [R, heads * head_dim]."""
        a, n, t = self._a, step.requests, step.tokens
        if step.rows is not None:
            query = query.new_zeros(n * t, a.heads, a.head_dim).index_copy_(0, step.rows, query)
        # The query heads that share a key head become rows of one matrix: on a CPU far faster than enable_gqa.
        query = query.reshape(n, t, a.kv_heads, -1, a.head_dim).transpose(1, 2).reshape(n, a.kv_heads, -1, a.head_dim)
        mixed = step.reading.attend(query, layer, step.attention[self._type].mask, a.scale)
        mixed = mixed.reshape(n, a.kv_heads, t, -1, a.head_dim).transpose(1, 2).reshape(n * t, -1)
        return mixed if step.rows is None else mixed.index_select(0, step.rows)
