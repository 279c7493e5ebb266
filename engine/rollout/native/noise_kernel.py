"""``noise.exponentials`` in one kernel of Triton's: on a GPU each operation of torch by itself reads and writes all of the numbers."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def mixed(digits: tl.tensor, shift: tl.constexpr) -> tl.tensor:
    return digits ^ ((digits >> shift) & ((1 << (32 - shift)) - 1))


@triton.jit  # type: ignore[untyped-decorator]
def kernel(noise: tl.tensor, keys: tl.tensor, codes: tl.tensor, width: tl.tensor, stride: tl.tensor, block: tl.constexpr) -> None:
    """A block of a row of ``noise`` [R, width]. From one row of ``codes`` to the next there are ``stride`` numbers, none if all have the
    same."""
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * block + tl.arange(0, block)
    there = columns < width
    key = tl.load(keys + row)
    digits = tl.load(codes + row * stride + columns, mask=there, other=0) ^ key.to(tl.int32)
    digits = mixed(digits * 0x21F0AAAD, 15) ^ (key >> 32).to(tl.int32)
    digits = mixed(digits * 0x735A2D97, 15)
    fraction = (((key * -0x61C8864680B583EB) >> 41) & 0x7FFFFF).to(tl.float32) + 0.5
    uniform = tl.abs(digits.to(tl.float32) + fraction * 0.00000011920928955078125) * -0.0000000004656612873077392578125
    exponential = -libdevice.log1p(tl.maximum(uniform, -0.999999940395355224609375))
    tl.store(noise + row * width + columns, exponential, mask=there)


def fill(noise: Tensor, keys: Tensor, codes: Tensor) -> None:
    """See ``noise.exponentials_into``."""
    rows, width = noise.shape
    if noise.numel():
        with torch.cuda.device_of(noise):  # type: ignore[no-untyped-call]
            kernel[rows, triton.cdiv(width, BLOCK)](noise, keys, codes, width, codes.stride(0) if codes.dim() == 2 else 0, BLOCK)
