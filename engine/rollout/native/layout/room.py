"""Whether there is room for requests, counted in pages."""

from collections.abc import Sequence
from typing import Protocol


class Room(Protocol):
    @property
    def free(self) -> int:
        """Pages that nobody has."""
        ...

    def cost(self, length: int, shared: int = 0) -> int:
        """Pages that another slot takes for ``length`` positions, the first ``shared`` of which it shares."""
        ...

    def missing(self, lengths: Sequence[int]) -> int:
        """Pages that the first slots lack for ``lengths`` positions."""
        ...


class Unlimited:
    """A slot is room enough."""

    free = 2**62

    def cost(self, length: int, shared: int = 0) -> int:  # noqa: ARG002
        return 0

    def missing(self, lengths: Sequence[int]) -> int:  # noqa: ARG002
        return 0
