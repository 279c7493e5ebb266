"""The data type in which the policy is trained."""

import torch

from engine.config.learner import LearnerConfig
from engine.rollout.data_type import native_data_type


def computing_type(config: LearnerConfig, device: torch.device, hidden: int) -> torch.dtype:
    """Of forward and backward passes of a policy with this hidden size: what ``precision`` says, or, if that is auto, bfloat16 where
    ``device`` multiplies it fast, else float32."""
    if config.precision != "auto":
        return getattr(torch, config.precision)  # type: ignore[no-any-return]
    return torch.bfloat16 if native_data_type(device, hidden) == torch.bfloat16 else torch.float32


def allow_tf32(device: torch.device, *types: torch.dtype) -> None:
    """A GPU may multiply in TF32 what is left in float32, unless one of ``types``, in which this process computes, is float32: whoever asks
    for that gets it."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.float32 not in types
