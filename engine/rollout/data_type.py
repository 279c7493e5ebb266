"""The data type of the rollout engine's weights."""

import torch

from engine.config import RunConfig
from engine.rollout.native.linear import multiplies_bfloat16


def data_type(config: RunConfig, device: torch.device) -> torch.dtype:
    """What ``model.dtype`` says, or, if that is auto, what is fast on ``device``."""
    if config.model.dtype != "auto":
        return getattr(torch, config.model.dtype)  # type: ignore[no-any-return]
    if config.rollout.engine == "sglang" and device.type == "cpu":
        return torch.float32
    return native_data_type(device)


def native_data_type(device: torch.device) -> torch.dtype:
    """The fastest of the native engine: bfloat16 where the hardware multiplies it, else float16 on x86 processors."""
    if device.type != "cpu" or multiplies_bfloat16():
        return torch.bfloat16
    return torch.float16 if "fbgemm" in torch.backends.quantized.supported_engines else torch.float32
