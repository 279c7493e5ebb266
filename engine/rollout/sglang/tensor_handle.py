"""Handles of tensors in memory that processes share: by CUDA IPC on a GPU, and by shared memory on a CPU."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import rebuild_cuda_tensor

DEVICE = 6
"""Where ``rebuild_cuda_tensor`` is told of the GPU."""


class Opening:
    """Where it is unpickled there is the tensor."""

    def __init__(self, rebuild: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._reduced = rebuild, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._reduced


@dataclass(frozen=True)
class TensorHandle:
    """Passed on from process to process it opens nothing, so that those between need no memory of a GPU. The tensor must live until whoever
    opened it is done."""

    rebuild: Callable[..., Any]
    arguments: tuple[Any, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "TensorHandle":
        """As torch.multiprocessing would send it."""
        handle = _closed(tensor)
        assert isinstance(handle, cls)
        return handle

    def opening(self, device: int = 0) -> Opening:
        """For the last process, which counts the tensor's GPU as its ``device``: whoever sees other GPUs counts it otherwise."""
        arguments = [each.opening(device) if isinstance(each, TensorHandle) else each for each in self.arguments]
        if self.rebuild is rebuild_cuda_tensor:
            arguments[DEVICE] = device
        return Opening(self.rebuild, tuple(arguments))


def _closed(value: Any) -> Any:
    """``value``, or a handle of it if torch shares such values."""
    reducers: dict[type, Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    if type(value) not in reducers:
        return value
    rebuild, arguments = reducers[type(value)](value)
    return TensorHandle(rebuild, tuple(map(_closed, arguments)))
