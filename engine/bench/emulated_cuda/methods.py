"""Methods of tensors that ask torch's build for CUDA before a mode sees them, by operations that do not."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def taken(tensor: Tensor, index: Any) -> Tensor:
    """``tensor[index]``."""
    view, chosen = _view(tensor, index)
    return view if chosen is None else aten.index(view, chosen)


def put(tensor: Tensor, index: Any, value: Tensor | float) -> None:
    """``tensor[index] = value``."""
    view, chosen = _view(tensor, index)
    if chosen is not None:
        aten.index_put_(view, chosen, value if isinstance(value, Tensor) else view.new_full((), value))
    elif isinstance(value, Tensor):
        copied(view, value)
    else:
        view.fill_(value)


def copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """``copy_`` without gradient."""
    with torch._C._AutoDispatchBelowAutograd():
        done: Tensor = aten.copy_(target, source, non_blocking)
    return done


def _view(tensor: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None] | None]:
    """What numbers, slices and new dimensions leave, and the tensors that choose of it, by dimension, if there are any."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(part is Ellipsis for part in parts):
        place = next(place for place, part in enumerate(parts) if part is Ellipsis)
        given = sum(part.dim() if _is_mask(part) else 1 for part in parts if part is not None and part is not Ellipsis)
        parts[place : place + 1] = [slice(None)] * (tensor.dim() - given)
    chosen: list[Tensor | None] = []
    for part in parts:
        if part is None:
            tensor = tensor.unsqueeze(len(chosen))
            chosen.append(None)
        elif isinstance(part, slice):
            start, stop, step = part.indices(tensor.shape[len(chosen)])
            tensor = aten.slice(tensor, len(chosen), start, max(start, stop), step)
            chosen.append(None)
        elif isinstance(part, Tensor):
            chosen += [part, *[None] * (part.dim() - 1 if _is_mask(part) else 0)]
        else:
            tensor = tensor.select(len(chosen), int(part))
    chosen = [part for place, part in enumerate(chosen) if part is not None or any(later is not None for later in chosen[place:])]
    return tensor, chosen or None


def _is_mask(part: object) -> bool:
    return isinstance(part, Tensor) and part.dtype == torch.bool


METHODS: dict[Any, Callable[..., Any]] = {
    Tensor.__getitem__: taken,
    Tensor.__setitem__: put,
    Tensor.copy_: copied,
    Tensor.contiguous: aten.contiguous,
    Tensor.__invert__: aten.bitwise_not,
    Tensor.nonzero: lambda tensor, as_tuple=False: aten.nonzero(tensor).unbind(1) if as_tuple else aten.nonzero(tensor),
    Tensor.item: aten.item,
    Tensor.__int__: lambda tensor: int(aten.item(tensor)),
    Tensor.__index__: lambda tensor: int(aten.item(tensor)),
    Tensor.__float__: lambda tensor: float(aten.item(tensor)),
    Tensor.__bool__: lambda tensor: bool(aten.item(tensor)),
    Tensor.tolist: lambda tensor: tensor.to("cpu").tolist(),
}
