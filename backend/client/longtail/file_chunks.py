"""Files as they travel: a chunk at a time, so that memory does not grow with them."""

import os
from collections.abc import Iterator
from pathlib import Path

CHUNK = 2**18


def chunks(path: Path, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """The bytes of a file from ``start`` up to ``end``, a chunk at a time; fewer if the file is shorter."""
    with path.open("rb") as file:
        left = (os.fstat(file.fileno()).st_size if end is None else end) - start
        file.seek(start)
        while left > 0 and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk
