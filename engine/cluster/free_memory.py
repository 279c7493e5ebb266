"""Memory that is free within the process: kept for the next update, or given back to the machine."""

import ctypes
import functools
from collections.abc import Callable

from psutil import Process

from engine.cluster import host_memory

GROWTH = 1.25
"""Of what an update has needed at most: what the process may have after another one. Lengths differ from step to step."""


class FreeMemory:
    """What an update leaves free the next one takes again, without waiting until the machine has cleared it once more. It goes back when
    the process has ``growth`` times what an update needs, or more than the machine has left."""

    def __init__(self, growth: float = GROWTH) -> None:
        self._process, self._growth = Process(), growth
        self._needed = 0
        self._anew = False
        """Whether nothing was kept for the last update, so that what the process has is what it needs."""

    def after_update(self) -> None:
        has = self._process.memory_info().rss
        if self._anew:
            self._needed = max(self._needed, has)
        self._anew = has > self._growth * self._needed or has > host_memory.free()
        if self._anew:
            give_back()


def give_back() -> None:
    """glibc keeps freed memory that lies below anything still in use, and tensors of ever other sizes find less and less room in it: 16
    updates of a model of 135 M parameters on a CPU kept 1.2 GB of it. Takes a millisecond; does nothing where the C library is another."""
    if trim := _trim():
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
