"""All gradients of a model in one flat buffer: summed over workers, measured and clipped without a copy."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

BUCKET = 2**26  # elements in one all-reduce, 256 MB in fp32


class FlatGradients:
    """Makes every parameter's ``grad`` a view of one buffer, into which backward passes accumulate."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        trained = list(parameters)
        sizes = [parameter.numel() for parameter in trained]
        self._buffer = torch.zeros(sum(sizes), dtype=trained[0].dtype, device=trained[0].device)
        for parameter, part in zip(trained, torch.split(self._buffer, sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def zero(self) -> None:
        self._buffer.zero_()

    def reduce(self, group: dist.ProcessGroup) -> None:
        """Sums the gradients over ``group``; every worker then holds the same bits."""
        for bucket in torch.split(self._buffer, BUCKET):
            dist.all_reduce(bucket, group=group)

    def clip(self, max_norm: float) -> float:
        """Scales the gradients down to a global L2 norm of ``max_norm``; returns the norm before, for which a GPU is waited for."""
        norm = torch.linalg.vector_norm(self._buffer)
        self._buffer.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return float(norm.item())
