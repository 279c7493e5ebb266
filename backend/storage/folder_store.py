"""The artifact store in a local folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from backend.storage.store import Stored, checked, is_sha256
from longtail.file_chunks import chunks
from longtail.schemas.credentials import private_folder


class FolderStore:
    """In a local folder, as ``ab/ab12…``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.incoming = folder / "incoming"

    def commit(self, file: Path, sha256: str) -> None:
        final = self._path(sha256)
        private_folder(final.parent)
        os.utime(file)
        file.replace(final)
        for folder in (final.parent, self._folder):
            _flush(folder)

    def find(self, sha256: str) -> Stored | None:
        path = self._path(sha256) if is_sha256(sha256) else None
        if path is None or path.is_symlink() or not path.is_file():
            return None
        found = path.stat()
        return Stored(sha256, found.st_size, found.st_mtime)

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        return chunks(self._path(sha256), start, end)

    def remove(self, sha256: str) -> None:
        self._path(sha256).unlink(missing_ok=True)

    def objects(self) -> Iterator[Stored]:
        for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
            if stored := self.find(path.name):
                yield stored

    def _path(self, sha256: str) -> Path:
        return self._folder / checked(sha256)[:2] / sha256


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
