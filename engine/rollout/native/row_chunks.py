"""Work on rows in chunks: temporaries stay in a processor's cache, and a row's bits do not depend on its batch."""

from collections.abc import Iterator

from torch import Tensor

SERIAL = 32768
"""Elements that torch leaves to one thread. More are split in places that depend on how many rows there are."""


def row_chunks(rows: Tensor, width: int) -> Iterator[slice]:
    """Of the first dimension of ``rows``, on each of which one works ``width`` elements wide: one row, or as many as one thread takes.
    A GPU takes all rows at once."""
    size = len(rows) if rows.is_cuda else max(1, SERIAL // width)
    for start in range(0, len(rows), max(1, size)):
        yield slice(start, start + size)
