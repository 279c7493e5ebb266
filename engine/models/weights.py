"""A model's weights by their Hugging Face names, where they may be shards that are spread over workers (DTensors), and have adapters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard
from torch.nn.functional import pad
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel

BUCKET_BYTES = 256 * 2**20
BASE, ADDED = ".base_layer.", ".lora_"
"""What PEFT calls an adapted layer's own weights, and the adapters' names begin with."""


def whole(weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """All of ``weight``. That of a shard is gathered, in ``dtype`` if one is given, where the policy computes: every rank must ask for the
    same in the same order. What is no shard is as it is."""
    if not isinstance(weight, DTensor):
        return weight
    return cast(DTensor, weight.to(weight.device_mesh.device_type, dtype)).full_tensor()


def buckets(weights: Mapping[str, Tensor], dtype: torch.dtype, size: int = BUCKET_BYTES) -> list[list[str]]:
    """The names in order, in buckets of at most ``size`` bytes in ``dtype``; a larger weight has one to itself."""
    found: list[list[str]] = []
    room = 0
    for name, weight in weights.items():
        length = weight.numel() * dtype.itemsize
        if not found or length > room:
            found.append([])
            room = size
        found[-1].append(name)
        room -= length
    return found


def gathered(weights: Mapping[str, Tensor], dtype: torch.dtype, size: int = BUCKET_BYTES) -> Iterator[tuple[str, Tensor]]:
    """Each weight as ``whole`` has it. Every rank must go through equal weights, in equal ``buckets``, to the end."""
    for names in buckets(weights, dtype, size):
        yield from zip(names, together([weights[name] for name in names], dtype), strict=True)


def together(weights: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """All of ``weights``, each as ``whole`` has it. What is shared out by rows is gathered at once: a message of one costs more than its
    bytes."""
    shards = [weight for weight in weights if _by_rows(weight)]
    if not shards:
        return [whole(weight, dtype) for weight in weights]
    mesh = shards[0].device_mesh
    parts = [_padded(weight, mesh.size()).to(mesh.device_type, dtype) for weight in shards]
    sent = torch.cat(parts)
    received = sent.new_empty(mesh.size(), len(sent))
    dist.all_gather(list(received.unbind()), sent, group=mesh.get_group())
    columns = iter(torch.split(received, [len(part) for part in parts], dim=1))
    return [
        next(columns).reshape(-1)[: weight.numel()].view(weight.shape) if _by_rows(weight) else whole(weight, dtype) for weight in weights
    ]


def _by_rows(weight: Tensor) -> TypeGuard[DTensor]:
    return isinstance(weight, DTensor) and weight.placements == (Shard(0),)


def _padded(weight: DTensor, ranks: int) -> Tensor:
    """This worker's rows, flat, and zeros for those that only others have: the first workers have as many as anyone."""
    part = weight.to_local().reshape(-1)
    return pad(part, (0, -(-weight.shape[0] // ranks) * weight.shape[1:].numel() - len(part)))


def local(weight: Tensor) -> Tensor:
    """This worker's part of ``weight``, perhaps without rows; all of it unless it is a shard."""
    return weight.to_local() if isinstance(weight, DTensor) else weight


def base_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of ``model`` without adapters, if it has any, by Hugging Face name. A tied weight has one entry, as in a saved folder."""
    return {name.replace(BASE, "."): weight.detach() for name, weight in model.named_parameters() if ADDED not in name}


def ends(model: PreTrainedModel) -> tuple[Tensor, Tensor]:
    """The embedding and the head, each as ``whole`` has it."""
    untyped: Any = model
    return whole(untyped.get_input_embeddings().weight), whole(untyped.get_output_embeddings().weight)


def host_copy(state: Any) -> Any:
    """``state`` (nested dicts, lists and tuples) with its tensors copied to host memory, out of training's reach."""
    return tree_map_only(Tensor, lambda tensor: tensor.detach().to("cpu", copy=True), state)
