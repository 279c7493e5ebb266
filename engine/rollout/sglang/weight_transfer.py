"""Weights on their way to SGLang: buckets of bytes in memory that engine and host share, on the host, or on a GPU that both use."""

import os
from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from engine.models.weights import BUCKET_BYTES, buckets, together
from engine.rollout.sglang.messages import Bucket, TensorSlice
from engine.rollout.sglang.tensor_handle import TensorHandle

ALIGNMENT = 16


def plan_buckets(weights: Mapping[str, Tensor], dtype: torch.dtype, size: int = BUCKET_BYTES) -> list[Bucket]:
    """Which tensors, in ``dtype``, go where in which bucket, see ``engine.models.weights.buckets``."""
    return [Bucket(tuple(_spans(names, weights, dtype))) for names in buckets(weights, dtype, size)]


def fill_bucket(bucket: Bucket, weights: Mapping[str, Tensor], memory: Tensor) -> None:
    """Copies the bucket's tensors into ``memory``, bytes. Shards are gathered in the bucket's data type."""
    wanted = together([weights[span.name] for span in bucket.tensors], bucket.tensors[0].dtype)
    for span, tensor in zip(bucket.tensors, wanted, strict=True):
        memory[span.start : span.end].view(span.dtype).view(span.shape).copy_(tensor)


def through(memory: int, weights: Mapping[str, Tensor], dtype: torch.dtype) -> Iterator[tuple[Bucket, bool]]:
    """Puts one bucket after the other into the shared memory behind the file descriptor ``memory``; tells which is the last one."""
    buckets = plan_buckets(weights, dtype)
    size = max(bucket.bytes for bucket in buckets)
    os.ftruncate(memory, size)
    flat = torch.from_file(f"/proc/self/fd/{memory}", shared=True, size=size, dtype=torch.uint8)
    for bucket in buckets:
        fill_bucket(bucket, weights, flat)
        yield bucket, bucket is buckets[-1]
    del flat
    os.ftruncate(memory, 0)


def on_device(
    weights: Mapping[str, Tensor],
    dtype: torch.dtype,
    device: torch.device,
    ranks: dist.ProcessGroup | None = None,
    size: int = BUCKET_BYTES,
) -> Iterator[tuple[Bucket, bool, list[TensorHandle]]]:
    """Puts one bucket after the other into memory of ``device``, of which others get a handle: what is computed there never leaves it.
    With ``ranks``, who talk on the host, all do so at once, each on a device of its own, and get the handles of all.

    Whoever opens them must be done before the one that it has them from asks for the next bucket; all others wait for that. SGLang only
    enqueues its copies, but lets go of the tensor before it answers, and a process that lets go of another's memory waits for its stream
    first (torch/csrc/StorageSharing.cpp)."""
    buckets = plan_buckets(weights, dtype, size)
    flat = torch.empty(max(bucket.bytes for bucket in buckets), dtype=torch.uint8, device=device)
    for bucket in buckets:
        fill_bucket(bucket, weights, flat)
        if flat.is_cuda:
            torch.cuda.current_stream(device).synchronize()
        yield bucket, bucket is buckets[-1], _of_all(TensorHandle.of(flat[: bucket.bytes]), ranks)
        if ranks:
            dist.barrier(ranks)


def _of_all(handle: TensorHandle, ranks: dist.ProcessGroup | None) -> list[TensorHandle]:
    if ranks is None:
        return [handle]
    handles = [handle] * ranks.size()
    dist.all_gather_object(handles, handle, group=ranks)
    return handles


def _spans(names: Sequence[str], weights: Mapping[str, Tensor], dtype: torch.dtype) -> Iterator[TensorSlice]:
    start = 0
    for name in names:
        end = start + weights[name].numel() * dtype.itemsize
        yield TensorSlice(name, tuple(weights[name].shape), dtype, start, end)
        start = -(-end // ALIGNMENT) * ALIGNMENT
