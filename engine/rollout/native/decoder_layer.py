"""A decoder layer with fused weights. In a small model every operation costs microseconds of overhead, so there are few."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.architecture import Architecture
from engine.rollout.native.attention import attend
from engine.rollout.native.linear import Linear
from engine.rollout.native.row_chunks import row_chunks


@dataclass(frozen=True)
class ForwardPass:
    """What all layers of a forward pass share: n requests with up to T tokens each, in R rows.

    ``rows`` [R] tells which of the n * T tokens there are, in order; None if all. ``index`` [R] are the rows of the flat cache that are
    written; ``cosine`` and ``sine`` [R, 1, head_dim]; ``mask`` [n, 1, T * heads / kv_heads or more, L]: see ``attend``. One entry per
    layer of the model that runs: ``store`` [rows, 2 * kv_heads * head_dim], the flat cache, and the views ``keys`` and ``values``
    [n, kv_heads, L, head_dim] of the requests' own part.
    """

    requests: int
    tokens: int
    rows: Tensor | None
    index: Tensor
    cosine: Tensor
    sine: Tensor
    mask: Tensor
    store: tuple[Tensor, ...]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def column(self, token: int) -> "ForwardPass":
        """The pass of one token of each request."""
        assert self.rows is None
        chosen = slice(token, None, self.tokens)
        mask = self.mask.view(self.requests, 1, self.tokens, -1, self.mask.shape[-1])[:, :, token]
        return replace(self, tokens=1, index=self.index[chosen], cosine=self.cosine[chosen], sine=self.sine[chosen], mask=mask)


class RMSNorm:
    """Divides each row by its root mean square and multiplies it by ``weight`` [size]. ``pack`` after a change of the weight."""

    def __init__(self, size: int, eps: float, like: Tensor) -> None:
        self.weight = like.new_empty(size)
        self._size, self._eps = size, eps
        self._root_eps = torch.tensor((size * eps) ** 0.5, device=like.device)
        self._scaled = torch.empty(size, device=like.device)

    def pack(self) -> None:
        self._scaled = self.weight.float() * self._size**0.5

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return F.rms_norm(x, (self._size,), self.weight, self._eps)
        # On a CPU F.rms_norm is a chain of small operations that takes twice as long as this one.
        return x.div(torch.linalg.vector_norm(x, 2, -1, True).hypot_(self._root_eps)).mul_(self._scaled)


class DecoderLayer:
    """Query, key and value are one matrix, and so are gate and up."""

    def __init__(self, architecture: Architecture, like: Tensor, input_norm: bool = True, inputs: int = 0) -> None:
        """Empty weights on ``like``'s device, in its data type. A drafter's layer has no ``input_norm``; that of EAGLE-3 attends to
        ``inputs`` numbers, not to the hidden state."""
        a = self._a = architecture
        self._input_norm = RMSNorm(a.hidden, a.eps, like) if input_norm else None
        self._qkv = Linear(inputs or a.hidden, (a.heads + 2 * a.kv_heads) * a.head_dim, like, bias=a.qkv_bias)
        self._qk_norms = (RMSNorm(a.head_dim, a.eps, like), RMSNorm(a.head_dim, a.eps, like)) if a.qk_norm else None
        self._output = Linear(a.heads * a.head_dim, a.hidden, like)
        self._post_norm = RMSNorm(a.hidden, a.eps, like)
        self._gate_up = Linear(a.hidden, 2 * a.intermediate, like)
        self._down = Linear(a.intermediate, a.hidden, like)

    def parameters(self) -> dict[str, Tensor]:
        """Views of the fused weights by their Hugging Face names within the layer. ``pack`` after a change."""
        a = self._a
        sizes = [heads * a.head_dim for heads in (a.heads, a.kv_heads, a.kv_heads)]
        query, key, value = torch.split(self._qkv.weight, sizes)
        gate, up = self._gate_up.weight.chunk(2)
        named = {
            "self_attn.q_proj.weight": query,
            "self_attn.k_proj.weight": key,
            "self_attn.v_proj.weight": value,
            "self_attn.o_proj.weight": self._output.weight,
            "post_attention_layernorm.weight": self._post_norm.weight,
            "mlp.gate_proj.weight": gate,
            "mlp.up_proj.weight": up,
            "mlp.down_proj.weight": self._down.weight,
        }
        if self._input_norm:
            named["input_layernorm.weight"] = self._input_norm.weight
        if self._qkv.bias is not None:
            biases = torch.split(self._qkv.bias, sizes)
            named |= {f"self_attn.{x}_proj.bias": bias for x, bias in zip("qkv", biases, strict=True)}
        if self._qk_norms:
            named |= {f"self_attn.{x}_norm.weight": norm.weight for x, norm in zip("qk", self._qk_norms, strict=True)}
        return named

    def pack(self) -> None:
        for part in (self._input_norm, self._qkv, *(self._qk_norms or ()), self._output, self._post_norm, self._gate_up, self._down):
            if part:
                part.pack()

    def __call__(self, x: Tensor, step: ForwardPass, layer: int, inputs: Tensor | None = None) -> Tensor:
        """[R, hidden] to [R, hidden]; writes the rows' keys and values into layer ``layer`` of the cache. ``inputs`` as in the
        constructor, [R, inputs], if they are not ``x``."""
        qkv = self._project(x if inputs is None else inputs, step, layer)
        x = self._output.plus(x, self._attend(qkv[:, : self._a.heads], step, layer))
        gate, up = self._gate_up(self._post_norm(x)).chunk(2, -1)
        for chunk in row_chunks(gate, gate.shape[1]):
            F.silu(gate[chunk], inplace=True)
        return self._down.plus(x, gate.mul_(up))

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
        halves_swapped = qk.roll(a.head_dim // 2, -1)
        qk.mul_(step.cosine).addcmul_(halves_swapped, step.sine)
        step.store[layer].index_copy_(0, step.index, qkv[:, a.heads :].flatten(1))
        return qkv

    def _attend(self, query: Tensor, step: ForwardPass, layer: int) -> Tensor:
        """[R, heads, head_dim] to [R, heads * head_dim]."""
        a, n, t = self._a, step.requests, step.tokens
        if step.rows is not None:
            query = query.new_zeros(n * t, a.heads, a.head_dim).index_copy_(0, step.rows, query)
        # The query heads that share a key head become rows of one matrix: on a CPU far faster than enable_gqa.
        query = query.reshape(n, t, a.kv_heads, -1, a.head_dim).transpose(1, 2).reshape(n, a.kv_heads, -1, a.head_dim)
        mixed = attend(query, step.keys[layer], step.values[layer], step.mask)
        mixed = mixed.reshape(n, a.kv_heads, t, -1, a.head_dim).transpose(1, 2).reshape(n * t, -1)
        return mixed if step.rows is None else mixed.index_select(0, step.rows)
