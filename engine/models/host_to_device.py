"""Tensors of the host on their way to where they are computed with."""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor``, which is the host's, on ``device``. A GPU is not waited for: it takes it when its turn comes, from pinned memory, which
    is not used again before."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
