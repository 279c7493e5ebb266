"""Files on their way into the artifact store: written under a name of their own, with their checksum, and gone if nothing comes of them."""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from longtail.schemas.credentials import private_folder

SUFFIX = ".part"


class Staged:
    """``sha256`` and ``bytes`` are of what has been written so far."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.bytes = path, 0
        self._file, self._digest = file, hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: bytes | bytearray) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)

    def seal(self) -> None:
        """Returns once all of it is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def staging(folder: Path) -> Iterator[Staged]:
    """A new file in ``folder``. It does not outlive the block: whoever wants it renames it. Only a kill leaves it, for the collector."""
    path = private_folder(folder) / f"{secrets.token_hex(8)}{SUFFIX}"
    try:
        with path.open("xb") as file:
            yield Staged(path, file)
    finally:
        path.unlink(missing_ok=True)
