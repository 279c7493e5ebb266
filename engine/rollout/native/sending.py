"""From the host to the device, and back."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def sent(values: Sequence[Any], device: torch.device) -> Tensor:
    """``values``, numbers or nested sequences of them, on ``device``. A GPU is not waited for: it takes them when their turn comes, from
    pinned memory, which is not used again before."""
    made = torch.tensor(values)
    return made.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else made


def send_to(target: Tensor, values: NDArray[Any]) -> None:
    """As ``sent``, into a tensor that is there."""
    made = torch.from_numpy(values)
    target.copy_(made.pin_memory() if target.is_cuda else made, non_blocking=True)


class Received:
    """``values`` on their way to the host. A GPU writes them into pinned memory when their turn comes, and is waited for by ``take``."""

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self._written: torch.cuda.Event | None = None
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._written = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._written.record()

    def take(self) -> list[Any]:
        """As ``tolist``."""
        if self._written:
            self._written.synchronize()
        taken: list[Any] = self._values.tolist()
        return taken
