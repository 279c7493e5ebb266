"""Work on rows in chunks: temporaries stay in a processor's cache, of a GPU they have few bytes, and on a CPU a row's bits do not depend
on its batch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor  # the planner asks how large a chunk is, and knows no torch

SERIAL = 32768
"""Elements that torch leaves to one thread. More are split in places that depend on how many rows there are."""

ON_A_GPU = 2**25
"""Elements that a GPU takes at once, 128 MiB of float32: enough to be busy, and what is there of all rows of a large step at once does not
fit beside a cache."""


def row_chunks(rows: "Tensor", width: int) -> Iterator[slice]:
    """Of the first dimension of ``rows``, on each of which one works ``width`` elements wide: one row, or as many as one thread takes, or a
    GPU ``ON_A_GPU``."""
    size = max(1, (ON_A_GPU if rows.is_cuda else SERIAL) // width)
    for start in range(0, len(rows), size):
        yield slice(start, start + size)
