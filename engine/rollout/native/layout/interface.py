"""Where the positions of slots lie in the rows of the cache."""

from typing import NamedTuple, Protocol

from torch import Tensor

from engine.rollout.native.layout.room import Room


class Copies(NamedTuple):
    """Rows of the cache to be copied, with all that is kept of a position."""

    source: slice
    target: slice


class Layout(Room, Protocol):
    """``rows`` are those of the cache."""

    slots: int
    rows: int

    def zeros(self, like: Tensor, *shape: int) -> Tensor:
        """Memory of ``shape`` [rows] or [layers, rows, width], as the layout takes it, on ``like``'s device, in its data type."""
        ...

    def settle(self) -> None:
        """Has the device know what has changed. To be called before positions are looked up, and not in a capture."""
        ...

    def index(self, positions: Tensor, first: int) -> Tensor:
        """The rows of ``positions`` [n, T] of slots ``first`` and following."""
        ...

    def span(self, slot: int, length: int) -> slice | Tensor:
        """The rows of the first ``length`` positions of a slot."""
        ...

    def grow(self, slot: int, length: int) -> None:
        """A slot has room for ``length`` positions; OutOfPagesError if there is none."""
        ...

    def share(self, source: int, target: int, length: int) -> Copies:
        """A free slot has the first ``length`` positions of another one."""
        ...

    def hand_over(self, source: int, target: int, length: int) -> Copies | None:
        """A slot has the ``length`` positions of another one, which is to be released."""
        ...

    def release(self, slot: int) -> None:
        """A slot needs none of its positions any more; again is no error."""
        ...
