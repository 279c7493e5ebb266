"""Weights on their way to SGLang: buckets of bytes in memory that engine and host share."""

import os
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from engine.rollout.sglang.messages import Bucket, Span
from engine.weights import whole

BUCKET_BYTES = 256 * 2**20
ALIGNMENT = 16


def plan(weights: Mapping[str, Tensor], dtype: torch.dtype, size: int = BUCKET_BYTES) -> list[Bucket]:
    """Which tensors, in ``dtype``, go in which bucket of at most ``size`` bytes; a larger tensor has one to itself."""
    buckets: list[list[Span]] = [[]]
    end = 0
    for name, tensor in weights.items():
        length = tensor.numel() * dtype.itemsize
        if buckets[-1] and end + length > size:
            buckets.append([])
            end = 0
        buckets[-1].append(Span(name, tuple(tensor.shape), dtype, end, end + length))
        end = -(-(end + length) // ALIGNMENT) * ALIGNMENT
    return [Bucket(tuple(spans)) for spans in buckets if spans]


def fill(bucket: Bucket, weights: Mapping[str, Tensor], memory: Tensor) -> None:
    """Copies the bucket's tensors into ``memory``, bytes on the host. Shards are gathered one at a time, in the bucket's data type."""
    for span in bucket.tensors:
        memory[span.start : span.end].view(span.dtype).view(span.shape).copy_(whole(weights[span.name].to(span.dtype)))


def gather(weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    """This rank's part in another's ``through``: all that hold shards put them together at once."""
    for bucket in plan(weights, dtype):
        for span in bucket.tensors:
            whole(weights[span.name].to(span.dtype))


def through(memory: int, weights: Mapping[str, Tensor], dtype: torch.dtype) -> Iterator[tuple[Bucket, bool]]:
    """Puts one bucket after the other into the shared memory behind the file descriptor ``memory``; tells which is the last one."""
    buckets = plan(weights, dtype)
    size = max(bucket.bytes for bucket in buckets)
    os.ftruncate(memory, size)
    flat = torch.from_file(f"/proc/self/fd/{memory}", shared=True, size=size, dtype=torch.uint8)
    for bucket in buckets:
        fill(bucket, weights, flat)
        yield bucket, bucket is buckets[-1]
    del flat
    os.ftruncate(memory, 0)
