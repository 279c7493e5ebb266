"""How far a model has moved, from a small sample of its weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.models.weights import local

SAMPLED = 1024


def sketch(weights: Mapping[str, Tensor]) -> Tensor:
    """Evenly spaced values of each tensor, or of this worker's shard of it, at most ``SAMPLED`` of each, on the host."""
    flat = [local(weight.detach()).flatten() for weight in weights.values()]
    return torch.cat([each[:: max(1, -(-len(each) // SAMPLED))] for each in flat]).to("cpu", torch.float32)


def drift(before: Tensor, after: Tensor) -> float:
    """Relative change |after - before| / |before| between two sketches of one model."""
    return float((after - before).norm() / before.norm().clamp_min(torch.finfo(torch.float32).tiny))
