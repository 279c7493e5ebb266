"""From the host to the device."""

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
