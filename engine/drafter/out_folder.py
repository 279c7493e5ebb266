"""The folder that a command is told to write to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from engine.errors import ConfigError


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """ConfigError if what is done inside, which is to write to ``folder``, cannot."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"--out: {folder} cannot be written: {getattr(error, 'strerror', None) or error}") from None
