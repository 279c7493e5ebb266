"""The data type of the rollout engine's weights."""

import torch

from engine.config import RunConfig
from engine.rollout.native.linear import multiplies_bfloat16

WIDE = 512
"""Hidden size from which on bfloat16 pays on a CPU: in a smaller model it costs more to convert what is multiplied."""


def data_type(config: RunConfig, device: torch.device, hidden: int) -> torch.dtype:
    """What ``model.dtype`` says, or, if that is auto, what is fast on ``device`` for a model with this hidden size."""
    if config.model.dtype != "auto":
        return getattr(torch, config.model.dtype)  # type: ignore[no-any-return]
    if config.rollout.engine == "sglang" and device.type == "cpu":
        return torch.float32
    return native_data_type(device, hidden)


def native_data_type(device: torch.device, hidden: int) -> torch.dtype:
    """The fastest of the native engine."""
    if device.type != "cpu" or (multiplies_bfloat16() and hidden >= WIDE):
        return torch.bfloat16
    return torch.float16 if "fbgemm" in torch.backends.quantized.supported_engines else torch.float32
