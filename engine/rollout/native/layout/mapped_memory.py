"""Memory of a CPU that is taken where it is written, and can be given back in parts."""

import math
import mmap
import sys

import torch
from torch import Tensor

NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
"""Linux else refuses to map more than the machine has, although little of it may ever be written. Python names it from 3.13 on."""
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
SMALL_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", None)


class MappedMemory:
    """A ``tensor`` of zeros, rows in its last dimension but one."""

    def __init__(self, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        """``shape`` [rows] or [..., rows, width], not empty."""
        size = math.prod(shape) * dtype.itemsize
        self._map = mmap.mmap(-1, size, flags=PRIVATE)
        if SMALL_PAGES is not None:
            self._map.madvise(SMALL_PAGES)
        self.tensor: Tensor = torch.frombuffer(self._map, dtype=dtype).view(shape)
        self._rows, self._width = shape[-2], shape[-1] * dtype.itemsize

    @property
    def row(self) -> int:
        """Bytes of a row, of all leading dimensions together."""
        return len(self._map) // self._rows

    def give_back(self, start: int, stop: int) -> None:
        """What lies in rows ``start`` .. ``stop`` - 1 is zero again, or as it was where they share a page of memory with others."""
        for leading in range(0, len(self._map), self._rows * self._width):
            first = -(-(leading + start * self._width) // mmap.PAGESIZE) * mmap.PAGESIZE
            last = (leading + stop * self._width) // mmap.PAGESIZE * mmap.PAGESIZE
            if first < last:
                self._map.madvise(mmap.MADV_DONTNEED, first, last - first)
