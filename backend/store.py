"""Where the content of artifacts lies: each by its SHA-256, so that equal content lies there once, and whole or not at all."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from backend.settings import Settings
from backend.staging import chunks


@dataclass(frozen=True)
class Stored:
    """``modified`` is in seconds since the epoch."""

    sha256: str
    bytes: int
    modified: float


class Store(Protocol):
    """``incoming`` is a local folder for files that are on their way into the store (see staging)."""

    incoming: Path

    def commit(self, file: Path, sha256: str) -> None:
        """Makes ``file`` of ``incoming``, whose checksum this is and which is on disk, the content of this name, old or new."""

    def find(self, sha256: str) -> Stored | None:
        """None if it is not there, or no SHA-256 at all."""

    def read(self, sha256: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Its bytes from ``start`` up to ``end``, in chunks that fit into memory. FileNotFoundError if it is not there."""

    def remove(self, sha256: str) -> None: ...

    def objects(self) -> Iterator[Stored]:
        """All there is."""


@lru_cache(maxsize=8)
def open_store(settings: Settings) -> Store:
    """The store that ``settings`` name."""
    if "://" not in settings.artifact_store:
        return FolderStore(Path(settings.artifact_store or settings.home / "artifacts").expanduser().absolute())
    from backend.remote_store import RemoteStore

    return RemoteStore(settings.artifact_store, settings.home / "incoming")


def is_sha256(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def checked(sha256: str) -> str:
    """ValueError for what is no SHA-256, and so could lead anywhere as a name."""
    if not is_sha256(sha256):
        raise ValueError(f"{sha256!r} is not a SHA-256")
    return sha256


class FolderStore:
    """In a local folder, as ``ab/ab12…``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.incoming = folder / "incoming"

    def commit(self, file: Path, sha256: str) -> None:
        final = self._path(sha256)
        final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
