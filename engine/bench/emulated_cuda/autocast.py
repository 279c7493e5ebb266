"""``torch.autocast`` for tensors of the emulated device, which torch's own passes over."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

LOWER = {"linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "scaled_dot_product_attention"}
FLOAT32 = {"softmax", "log_softmax", "exp", "log", "pow", "sum", "cumsum", "norm", "rsqrt", "reciprocal", "smooth_l1_loss"}
WIDEST = {"cat", "stack"}
"""Of CUDA's lists those that the engine uses: what computes in the lower precision, what in float32, and what in the widest type of all."""


def available(stack: ExitStack) -> None:
    """Until ``stack`` is left ``torch.autocast("cuda")`` may be entered: it then looks no further than this."""
    stack.enter_context(patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False))
    stack.enter_context(patch("torch.cuda.is_bf16_supported", lambda including_emulation=True: True))  # noqa: ARG005


def cast(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments of ``function``, in the type that autocast has it compute in."""
    if not torch.is_autocast_enabled("cuda"):
        return args
    name = getattr(function, "__name__", "")
    if name in LOWER:
        return _each(args, lambda tensor: tensor.to(torch.get_autocast_dtype("cuda")))
    if name in FLOAT32:
        return _each(args, Tensor.float)
    if name in WIDEST:
        types = {tensor.dtype for tensor in args[0] if tensor.is_floating_point()}
        return (_each(tuple(args[0]), Tensor.float), *args[1:]) if len(types) > 1 else args
    return args


def _each(values: tuple[Any, ...], to: Callable[[Tensor], Tensor]) -> tuple[Any, ...]:
    """``to`` of all tensors of floats among them, but for float64."""
    return tuple(
        to(each) if isinstance(each, Tensor) and each.is_floating_point() and each.dtype != torch.float64 else each for each in values
    )
