"""A decoder layer with fused weights. In a small model every operation costs microseconds of overhead, so there are few."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.rollout.native.architecture import Architecture


@dataclass(frozen=True)
class Pass:
    """What all layers of a forward pass share: n requests with T tokens each, flattened to R = n * T rows.

    ``index`` [R] are the rows of the flat cache that are written; ``cosine`` and ``sine`` [R, 1, head_dim]; ``mask``
    [n, 1, T * heads / kv_heads, L] is added to the scores. One entry per layer: ``store`` [slots * capacity, 2 * kv_heads *
    head_dim], the flat cache, and the views ``keys`` and ``values`` [n, kv_heads, L, head_dim] of the requests' own part.
    """

    requests: int
    tokens: int
    index: Tensor
    cosine: Tensor
    sine: Tensor
    mask: Tensor
    store: tuple[Tensor, ...]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    def column(self, token: int) -> "Pass":
        """The pass of one token of each request."""
        rows = slice(token, None, self.tokens)
        group = self.mask.shape[2] // self.tokens
        mask = self.mask[:, :, token * group : (token + 1) * group]
        return Pass(self.requests, 1, self.index[rows], self.cosine[rows], self.sine[rows], mask, self.store, self.keys, self.values)


class RMSNorm:
    """Divides each row by its root mean square and multiplies it by ``weight`` [size]."""

    def __init__(self, size: int, eps: float, like: Tensor) -> None:
        self.weight = like.new_empty(size)
        self._size, self._eps = size, eps
        self._root_eps = torch.tensor(eps**0.5, device=like.device)
        self._fused = like.is_cuda or like.dtype != torch.float32

    def __call__(self, x: Tensor) -> Tensor:
        if self._fused:
            return F.rms_norm(x, (self._size,), self.weight, self._eps)
        # On a CPU F.rms_norm is a chain of small operations that takes twice as long as this one.
        root = torch.linalg.vector_norm(x, dim=-1, keepdim=True).mul_(self._size**-0.5).hypot_(self._root_eps)
        return x.div(root).mul_(self.weight)


class DecoderLayer:
    """Matrices are stored [in, out], which a CPU multiplies faster than [out, in] when there are few rows."""

    def __init__(self, architecture: Architecture, like: Tensor, input_norm: bool = True) -> None:
        """Empty weights on ``like``'s device, in its data type. The drafter's layer has no ``input_norm``."""
        a = self._a = architecture
        self._input_norm = RMSNorm(a.hidden, a.eps, like) if input_norm else None
        self._qkv = like.new_empty(a.hidden, (a.heads + 2 * a.kv_heads) * a.head_dim)
        self._bias = like.new_empty(self._qkv.shape[1]) if a.qkv_bias else None
        self._qk_norms = (RMSNorm(a.head_dim, a.eps, like), RMSNorm(a.head_dim, a.eps, like)) if a.qk_norm else None
        self._output = like.new_empty(a.heads * a.head_dim, a.hidden)
        self._post_norm = RMSNorm(a.hidden, a.eps, like)
        self._gate_up = like.new_empty(a.hidden, 2 * a.intermediate)
        self._down = like.new_empty(a.intermediate, a.hidden)

    def parameters(self) -> dict[str, Tensor]:
        """Views of the fused weights by their Hugging Face names within the layer."""
        a = self._a
        sizes = [heads * a.head_dim for heads in (a.heads, a.kv_heads, a.kv_heads)]
        query, key, value = torch.split(self._qkv.t(), sizes)
        gate, up = self._gate_up.t().chunk(2)
        named = {
            "self_attn.q_proj.weight": query,
            "self_attn.k_proj.weight": key,
            "self_attn.v_proj.weight": value,
            "self_attn.o_proj.weight": self._output.t(),
            "post_attention_layernorm.weight": self._post_norm.weight,
            "mlp.gate_proj.weight": gate,
            "mlp.up_proj.weight": up,
            "mlp.down_proj.weight": self._down.t(),
        }
        if self._input_norm:
            named["input_layernorm.weight"] = self._input_norm.weight
        if self._bias is not None:
            biases = torch.split(self._bias, sizes)
            named |= {f"self_attn.{x}_proj.bias": bias for x, bias in zip("qkv", biases, strict=True)}
        if self._qk_norms:
            named |= {f"self_attn.{x}_norm.weight": norm.weight for x, norm in zip("qk", self._qk_norms, strict=True)}
        return named

    def __call__(self, x: Tensor, step: Pass, layer: int) -> Tensor:
        """[R, hidden] to [R, hidden]; writes the rows' keys and values into layer ``layer`` of the cache."""
        x = torch.addmm(x, self._attention(self._input_norm(x) if self._input_norm else x, step, layer), self._output)
        gate, up = torch.mm(self._post_norm(x), self._gate_up).chunk(2, -1)
        return torch.addmm(x, F.silu(gate, inplace=True).mul_(up), self._down)

    def _attention(self, x: Tensor, step: Pass, layer: int) -> Tensor:
        a, n, t = self._a, step.requests, step.tokens
        qkv = torch.mm(x, self._qkv) if self._bias is None else torch.addmm(self._bias, x, self._qkv)
        qkv = qkv.view(n * t, a.heads + 2 * a.kv_heads, a.head_dim)
        qk = qkv[:, : a.heads + a.kv_heads]
        if self._qk_norms:
            for heads, norm in zip(torch.split(qk, [a.heads, a.kv_heads], 1), self._qk_norms, strict=True):
                heads.copy_(norm(heads))
        halves_swapped = qk.roll(a.head_dim // 2, -1)
        qk.mul_(step.cosine).addcmul_(halves_swapped, step.sine)
        step.store[layer].index_copy_(0, step.index, qkv[:, a.heads :].flatten(1))
        # The query heads that share a key head become rows of one matrix: on a CPU far faster than enable_gqa.
        query = qkv[:, : a.heads].view(n, t, a.kv_heads, -1, a.head_dim).transpose(1, 2).reshape(n, a.kv_heads, -1, a.head_dim)
        mixed = F.scaled_dot_product_attention(query, step.keys[layer], step.values[layer], step.mask)
        return mixed.view(n, a.kv_heads, t, -1, a.head_dim).transpose(1, 2).reshape(n * t, -1)
