"""Bytes of all tensors that are there, and the most there were at a time: what a GPU's allocator would have to give, counted anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakSet

from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """``now`` and ``peak`` are of storages that operations made inside of the block, and that still are. What one operation allocates for
    itself and frees again is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._made: WeakSet[UntypedStorage] = WeakSet()
        self._given: WeakSet[UntypedStorage] = WeakSet()

    @property
    def now(self) -> int:
        return sum(storage.nbytes() for storage in self._made)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._given.update(storage for storage in _storages((args, kwargs)) if storage not in self._made)
        found = func(*args, **(kwargs or {}))
        self._made.update(storage for storage in _storages(found) if storage not in self._given)
        self.peak = max(self.peak, self.now)
        return found


def _storages(values: Any) -> list[UntypedStorage]:
    """Of a sharded tensor, that of its part."""
    tensors = [each for each in tree_leaves(values) if isinstance(each, Tensor)]
    return [getattr(each, "_local_tensor", each).untyped_storage() for each in tensors]
