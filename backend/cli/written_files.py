"""Files that a command writes where the user wants them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import LongtailError


@contextmanager
def written(path: Path) -> Iterator[None]:
    """LongtailError if what is done inside, which is to write ``path``, cannot."""
    try:
        yield
    except OSError as error:
        raise LongtailError(f"{path} cannot be written: {error.strerror or error}") from None
