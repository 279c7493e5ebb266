"""Tensors of the emulated device: they say cuda:0, and what they hold lies in the host's memory."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from engine.bench.emulated_cuda.autocast import cast
from engine.bench.emulated_cuda.methods import METHODS, RUN_OTHERS

CUDA = torch.device("cuda:0")
KNOWN = torch.device("lazy:0")
"""What torch takes the device for: autograd refuses tensors on one that it was not built for."""


class Block:
    """A piece of the device's memory, as long as a tensor lies in it, and who used it last: a stream and the number of what it did.
    ``graph`` is the number of the graph whose memory it is, if it is one's."""

    def __init__(self, size: int, freed: Callable[[int], None], graph: int | None = None) -> None:
        self._size, self._freed, self.graph = size, freed, graph
        self.written: tuple[int, int] | None = None
        self.read: dict[int, int] = {}

    def __del__(self) -> None:
        self._freed(self._size)


class DeviceTensor(Tensor):
    """``raw`` is the host's tensor that it stands for, in ``block``. In Python it is on ``CUDA``, for torch itself on ``KNOWN``."""

    raw: Tensor
    block: Block

    @staticmethod
    def __new__(cls, raw: Tensor, block: Block) -> "DeviceTensor":
        as_it = nullcontext() if raw.is_inference() == torch.is_inference_mode_enabled() else torch.inference_mode(raw.is_inference())
        with as_it:
            made: DeviceTensor = Tensor._make_wrapper_subclass(
                cls, raw.shape, strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype, device=KNOWN
            )
        return made

    def __init__(self, raw: Tensor, block: Block) -> None:
        self.raw, self.block = raw, block

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"DeviceTensor({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in SAID:
            return SAID[function]
        if function in RUN_OTHERS:
            return RUN_OTHERS[function](*args, **kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return METHODS.get(function, function)(*cast(function, args), **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{function} on a tensor of the emulated device, outside of `with EmulatedCuda()`")


class Names(TorchFunctionMode):
    """Torch hears of ``KNOWN`` where CUDA is named, and what it says of ``KNOWN`` it says of CUDA: of shards, too, whose parts are ours."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.device:
            return function(*args, **kwargs or {})
        result = function(*map(_known, args), **{name: _known(each) for name, each in (kwargs or {}).items()})
        return CUDA if isinstance(result, torch.device) and result.type == KNOWN.type else result


SAID: dict[Any, object] = {
    Tensor.device.__get__: CUDA,
    Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
}


def _known(argument: Any) -> Any:
    """The device as torch knows it, in place of the name that the engine gives it."""
    named = isinstance(argument, torch.device) or (isinstance(argument, str) and argument.startswith(CUDA.type))
    return KNOWN if named and on_device(argument) else argument


def on_device(value: object) -> bool:
    """Whether ``value``, the argument ``device`` of an operation, is the emulated one."""
    return value is not None and torch.device(value).type in (CUDA.type, KNOWN.type)  # type: ignore[call-overload]
