"""Where the content of artifacts lies: each by its SHA-256, so that equal content lies there once, and whole or not at all."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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


def is_sha256(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def checked(sha256: str) -> str:
    """ValueError for what is no SHA-256, and so could lead anywhere as a name."""
    if not is_sha256(sha256):
        raise ValueError(f"{sha256!r} is not a SHA-256")
    return sha256


@dataclass(frozen=True)
class DownloadContent:
    """``read(start, end)`` gives its bytes from ``start`` up to ``end``, of ``size``."""

    name: str
    size: int
    sha256: str
    read: Callable[[int, int], Iterator[bytes]]
