"""From the host to the device."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def sent(values: Sequence[Any], device: torch.device) -> Tensor:
    """``values``, numbers or nested sequences of them, on ``device``. A GPU is not waited for: it takes them when their turn comes, from
    pinned memory, which is not used again before."""
    made = torch.tensor(values)
    return made.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else made
