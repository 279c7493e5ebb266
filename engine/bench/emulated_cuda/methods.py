"""What torch would do otherwise with tensors of a GPU than with those of the device that it takes ours for."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.attention.varlen  # whose kernel is named below
from torch import Tensor
from torch.nn import Parameter, functional

aten = torch.ops.aten


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``scaled_dot_product_attention``: one kernel, the CPU's, in place of the products that it consists of."""
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    options = {"attn_mask": attn_mask, "scale": scale}
    attended: Tensor = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, **options)[0]
    return attended


def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Any,
    keys: Any,
    longest_query: int,
    longest_key: int,
    causal: bool,
    scale: float | None,
    window: Sequence[int],
    *others: object,
) -> tuple[Tensor, None, None]:
    """torch's FlashAttention of sequences that stand end to end: the same kernel, with a mask. What the host knows of ``queries`` and
    ``keys`` it knows without a wait."""
    assert causal or window[1] == 0, (longest_query, longest_key, others)
    mask = _visible(queries.raw.tolist(), keys.raw.tolist(), window[0]).to(query.dtype).pin_memory()
    heads_first = (each.transpose(0, 1)[None] for each in (query, key, value))
    attended = attention(*heads_first, mask.to(query.device, non_blocking=True), scale=scale, enable_gqa=True)
    return attended[0].transpose(0, 1), None, None


def _visible(queries: Sequence[int], keys: Sequence[int], window: int) -> Tensor:
    """0 where a query sees a key, else minus infinity. Both are where sequences begin, and the last one ends."""
    mask = torch.full((queries[-1], keys[-1]), -torch.inf)
    for (first, last), (start, stop) in zip(pairwise(queries), pairwise(keys), strict=True):
        newest = torch.arange(first, last)[:, None] - last + stop
        seen = torch.arange(start, stop)
        mask[first:last, start:stop].masked_fill_((seen <= newest) & ((seen >= newest - window) | (window < 0)), 0.0)
    return mask


def put_data(tensor: Any, data: Any) -> None:
    """``tensor.data = data``."""
    Tensor.data.__set__(tensor, data)  # type: ignore[attr-defined]
    tensor.raw, tensor.block = data.raw, data.block


def deep_copy(tensor: Any, memo: dict[int, Any]) -> Any:
    """``copy.deepcopy`` of a tensor or parameter, without its gradient."""
    if id(tensor) not in memo:
        memo[id(tensor)] = copied = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        copied._is_param = isinstance(tensor, Parameter)
    return memo[id(tensor)]


def backward(tensors: Sequence[Tensor], grad_tensors: Sequence[Tensor] | None = None, create_graph: bool = False, **options: Any) -> None:
    """``torch.autograd.backward``."""
    gradients = tuple(grad_tensors or map(torch.ones_like, tensors))
    keep, inputs = options.get("retain_graph"), options.get("inputs") or ()
    run = torch.autograd.graph._engine_run_backward
    run(
        tuple(tensors),
        gradients,
        create_graph if keep is None else keep,
        create_graph,
        inputs,
        allow_unreachable=True,
        accumulate_grad=True,
    )


def backward_of(tensor: Tensor, gradient: Tensor | None = None, **options: Any) -> None:
    """``tensor.backward(gradient)``."""
    backward((tensor,), None if gradient is None else (gradient,), **options)


RUN_OTHERS: dict[Any, Callable[..., Any]] = {torch.autograd.backward: backward, Tensor.backward: backward_of}
"""What runs hooks and functions of others, which are to be told of the device, too."""
METHODS: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: attention,
    torch.ops.torch_attn._varlen_attn: varlen_attention,
    Tensor.__deepcopy__: deep_copy,
    Tensor.data.__set__: put_data,  # type: ignore[attr-defined]
    Tensor.untyped_storage: lambda tensor: tensor.raw.untyped_storage(),
    Tensor.tolist: lambda tensor: tensor.to("cpu").tolist(),
}
