"""Matrix products of few rows, in which a row has the same bits whatever rows are beside it.

That, with attention.py, is what makes plain and speculative decoding, in any batch and order, generate the same responses to the bit
on a CPU, within the limits of engine/README.md. The kernel follows from the data type alone: were it chosen by timing, two workers
might choose differently. On a GPU the products are torch's, whose last bits depend on the number of rows.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.errors import ModelError

FBGEMM_ROWS = 6
"""That FBGEMM multiplies at once without AVX-512."""
FEWEST_FBGEMM_ROWS = 3
"""Of those: one or two are added up in another order."""
AMX_ROWS = 32
"""Up to which oneDNN adds up in one order with AMX."""
FEWEST_ROWS = 4
"""That oneDNN multiplies: one or two take longer than four, and a single one is added up in another order."""

Product = Callable[[Tensor], Tensor]

# PyTorch asks each argument of an operation for this. Packed weights do not have it and say so by C++ exceptions, which took longer than a
# small product does.
setattr(torch.ScriptObject, "__torch_function__", torch._C._disabled_torch_function_impl)  # noqa: B010 - mypy knows no such attribute


class Linear:
    """A matrix of a model, and the copy of it that the CPU's kernel reads."""

    def __init__(self, inputs: int, outputs: int, like: Tensor, bias: bool = False, weight: Tensor | None = None) -> None:
        """Empty ``weight`` [out, in], or the one given, on ``like``'s device, in its data type."""
        self.weight = like.new_empty(outputs, inputs) if weight is None else weight
        self.bias = like.new_empty(outputs) if bias else None
        self._product: Product = self._packing

    def pack(self) -> None:
        """To be called when the weight has changed."""
        self._product = PACKED[self.weight.dtype](self.weight, self.bias) if self.weight.device.type == "cpu" else self._on_gpu

    def __call__(self, x: Tensor) -> Tensor:
        """[R, in] to [R, out]."""
        return self._product(x)

    def plus(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` [R, out] and the product, of a matrix without bias."""
        return torch.addmm(residual, x, self.weight.t()) if x.is_cuda else self._product(x).add_(residual)

    def _packing(self, x: Tensor) -> Tensor:
        self.pack()
        return self._product(x)

    def _on_gpu(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


def activations(like: Tensor) -> Tensor:
    """Like what a model computes with whose weights are like ``like``: on a CPU float32, on a GPU what its weights are."""
    return like.float() if like.device.type == "cpu" else like


def _float32(weight: Tensor, bias: Tensor | None) -> Product:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return lambda x: F.linear(x, weight, bias)
    return _onednn(weight, bias)


def _onednn(weight: Tensor, bias: Tensor | None) -> Product:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    multiply = torch.ops.mkldnn._linear_pointwise.default

    def product(x: Tensor) -> Tensor:
        rows = x.shape[0]
        if rows >= FEWEST_ROWS:
            return multiply(x, packed, bias, "none", [], "")  # type: ignore[no-any-return]
        filled = x.expand(FEWEST_ROWS, -1) if rows == 1 else F.pad(x, (0, 0, 0, FEWEST_ROWS - rows))
        return multiply(filled, packed, bias, "none", [], "")[:rows]  # type: ignore[no-any-return]

    return product


def _float16(weight: Tensor, bias: Tensor | None) -> Product:
    """Float16 weights, float32 sums: up to six rows take the time of one."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        raise ModelError("float16 weights on a CPU need an x86 processor: set model.dtype to auto or float32")
    packed = torch.ops.quantized.linear_prepack_fp16(weight.float(), None if bias is None else bias.float())
    multiply = torch.ops.quantized.linear_dynamic_fp16.default
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        return lambda x: multiply(x, packed)

    def product(x: Tensor) -> Tensor:
        rows = x.shape[0]
        last = rows % FBGEMM_ROWS
        if not 0 < last < FEWEST_FBGEMM_ROWS:
            return multiply(x, packed)  # type: ignore[no-any-return]
        filled = torch.cat((x, *[x[:1]] * (FEWEST_FBGEMM_ROWS - last)))
        return multiply(filled, packed)[:rows]  # type: ignore[no-any-return]

    return product


def _bfloat16(weight: Tensor, bias: Tensor | None) -> Product:
    if not multiplies_bfloat16():
        return _float32(weight.float(), None if bias is None else bias.float())
    product = _onednn(weight, bias)
    if not torch.cpu._is_amx_tile_supported():
        return lambda x: product(x.bfloat16()).float()

    def by_tiles(x: Tensor) -> Tensor:
        parts = [product(part) for part in torch.split(x.bfloat16(), AMX_ROWS)]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).float()

    return by_tiles


PACKED = {torch.float32: _float32, torch.float16: _float16, torch.bfloat16: _bfloat16}


@cache
def multiplies_bfloat16() -> bool:
    """Whether this machine's CPU multiplies bfloat16 in hardware."""
    return torch.cpu._is_avx512_bf16_supported()
