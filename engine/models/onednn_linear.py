"""Linear layers in training that multiply float32 by oneDNN, on processors on which MKL, torch's own choice, is slow."""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

CPUINFO = Path("/proc/cpuinfo")
CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
"""Of products that torch, and below it oneDNN, keep prepared by their shapes; both are read at the first product of a process."""
PREPARED = 128
"""Products in each. By default they are 1,024, which take half a MB and more each, and micro-batches have ever other numbers of rows.
Rollouts are not slower with so few: SmolLM2 in bfloat16, and a qwen3_moe of 32 experts with 16 requests, were within 1 % in turns."""


@cache
def mkl_is_slow(cpuinfo: Path = CPUINFO) -> bool:
    """MKL does not use AVX-512 on other makers' processors: on an AMD EPYC that has it, MKL multiplied float32 at about 105 GFLOP/s, and
    oneDNN at 145 to 250. On one without it MKL is the faster one."""
    available = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or platform.machine() != "x86_64" or not cpuinfo.is_file():
        return False
    facts = cpuinfo.read_text(encoding="utf-8")
    return "GenuineIntel" not in facts and "avx512f" in facts


def pays(operand: Tensor) -> bool:
    """Whether oneDNN is the faster one for ``operand``; of bfloat16 it is torch's own choice."""
    float32 = operand.dtype == torch.float32 and not torch.is_autocast_enabled(operand.device.type)
    return float32 and operand.device.type == "cpu" and mkl_is_slow()


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x`` [R, in] and ``weight`` [out, in], both in any layout, ``bias`` [out], all float32 on the CPU: [R, out] by oneDNN."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return product


def use_onednn(model: nn.Module) -> None:
    """Wherever it pays, in all linear layers; their names and weights stay. From then on oneDNN keeps less, if it has kept nothing yet."""
    for name in CACHES:
        os.environ.setdefault(name, str(PREPARED))
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDNNLinear


class OneDNNLinear(nn.Linear):
    """torch's, where oneDNN does not pay."""

    def forward(self, input: Tensor) -> Tensor:
        if not pays(input) or not input.numel():
            return super().forward(input)
        rows: Tensor = Product.apply(input.flatten(0, -2), self.weight, self.bias)  # type: ignore[no-untyped-call]
        return torch.unflatten(rows, 0, input.shape[:-1])


class Product(torch.autograd.Function):
    """``multiply`` with gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            multiply(gradient, weight.t()) if of_x else None,
            multiply(gradient.t(), x.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )
