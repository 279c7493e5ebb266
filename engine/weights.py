"""A model's weights by their Hugging Face names, where they may be shards that are spread over workers (DTensors), and have adapters."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

BASE, ADDED = ".base_layer.", ".lora_"
"""What PEFT calls an adapted layer's own weights, and the adapters' names begin with."""


def whole(weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """All of ``weight``. That of a shard is gathered, in ``dtype`` if one is given, where the policy computes: every rank must ask for the
    same in the same order. What is no shard is as it is."""
    if not isinstance(weight, DTensor):
        return weight
    return cast(DTensor, weight.to(weight.device_mesh.device_type, dtype)).full_tensor()


def local(weight: Tensor) -> Tensor:
    """This worker's part of ``weight``, perhaps without rows; all of it unless it is a shard."""
    return weight.to_local() if isinstance(weight, DTensor) else weight


def base_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of ``model`` without adapters, if it has any, by Hugging Face name. A tied weight has one entry, as in a saved folder."""
    return {name.replace(BASE, "."): weight.detach() for name, weight in model.named_parameters() if ADDED not in name}
