"""What operations of torch do: which memory they write, and whether the host has to wait for them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_unflatten

from engine.bench.emulated_cuda.memory import Block, DeviceTensor

aten = torch.ops.aten
READS = {aten.item, aten._local_scalar_dense, aten.is_nonzero, aten.nonzero_numpy, aten.equal}
"""Tell the host what values there are. So do those that torch marks, and indexing by what is true."""
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
UNWRITTEN = {aten.empty, aten.new_empty, aten.empty_like, aten.empty_strided, aten.new_empty_strided}
DYNAMIC = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def waits(function: Any, ours: Sequence[DeviceTensor], args: Any) -> bool:
    """Whether the host has to know values before it can go on."""
    packet = function.overloadpacket
    if packet in INDEXING:
        return any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return bool(ours) and (packet in READS or any(tag in DYNAMIC for tag in function.tags))


def changed(function: Any, leaves: list[Any], shape: Any) -> list[Block]:
    """The memory of the arguments that ``function`` writes to."""
    if not function._schema.is_mutable:
        return []
    args, kwargs = tree_unflatten(leaves, shape)
    schema = function._schema.arguments
    given = [*zip(schema, args, strict=False), *((each, kwargs[each.name]) for each in schema if each.name in kwargs)]
    found = [value for each, value in given if each.alias_info is not None and each.alias_info.is_write]
    return [tensor.block for tensor in found if isinstance(tensor, DeviceTensor) and numbers(tensor)]


def fills(function: Any, results: Any) -> bool:
    """Whether it writes to the memory that it allocates for its ``results``."""
    return function.overloadpacket not in UNWRITTEN and any(isinstance(each, Tensor) and numbers(each) for each in tree_leaves(results))


def numbers(tensor: Tensor) -> bool:
    """Whether there are any in it."""
    return tensor.numel() > 0
