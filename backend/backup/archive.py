"""The file of a backup: a tar that is there whole or not at all. Its last file, manifest.json, has the checksums of all others."""

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Protocol, Self

from engine.errors import LongtailError

MANIFEST = "manifest.json"
FORMAT = 1
CHUNK = 2**20


class BackupError(LongtailError):
    """A backup cannot be made, or is not one, or is damaged, or there is no room to restore it."""

    code = "backup"


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Chunks:
    """An iterator of bytes as a file to read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest, self._at = chunks, b"", 0

    def read(self, size: int, /) -> bytes:
        while len(self._rest) - self._at < size and (chunk := next(self._chunks, b"")):
            self._rest, self._at = self._rest[self._at :] + chunk, 0
        given = self._rest[self._at : self._at + size]
        self._at += len(given)
        return given


class _Hashed:
    def __init__(self, source: Readable) -> None:
        self._source, self.digest = source, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


class Writer:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar, self.files = tar, dict[str, list[Any]]()

    def add(self, name: str, source: Readable, size: int) -> None:
        """``size`` bytes of ``source`` as the file ``name``; OSError if there are fewer."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        hashed = _Hashed(source)
        self._tar.addfile(info, hashed)  # type: ignore[arg-type]
        self.files[name] = [size, hashed.digest.hexdigest()]

    def add_bytes(self, name: str, content: bytes) -> None:
        self.add(name, BytesIO(content), len(content))

    def add_file(self, name: str, path: Path) -> None:
        """As long as it is now: a large one may grow meanwhile, a small one may be written anew."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > CHUNK:
                self.add(name, file, size)
            else:
                self.add_bytes(name, file.read())


@contextmanager
def writing(path: Path, facts: dict[str, Any]) -> Iterator[Writer]:
    """A new archive at ``path``, whose manifest has ``facts`` as they are at the end of the block. If that raises, nothing is left."""
    aside = path.with_name(f".{path.name}.partial")
    try:
        with open(aside, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                writer = Writer(tar)
                yield writer
                writer.add_bytes(MANIFEST, json.dumps({"format": FORMAT, **facts, "files": writer.files}).encode())
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


class Archive:
    """A backup to read. BackupError if it is none, or not whole."""

    def __init__(self, path: Path) -> None:
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115 - closed by the block
            self._members = {member.name: member for member in self._tar if member.isreg()}
            manifest = json.loads(self._open(MANIFEST).read())
        except (OSError, KeyError, ValueError, tarfile.TarError) as error:
            raise BackupError(f"{path} is not a whole backup of Longtail: {error}") from None
        if manifest.get("format") != FORMAT:
            raise BackupError(f"{path} has format {manifest.get('format')}, this version reads {FORMAT}")
        self.path, self.manifest = path, manifest
        self.files: dict[str, list[Any]] = manifest["files"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def check(self) -> None:
        """BackupError at the first file that is not what the manifest says."""
        for name in self.files:
            for _ in self.read(name):
                pass

    def read(self, name: str) -> Iterator[bytes]:
        """The content in chunks; BackupError at its end if it is damaged."""
        digest, size = hashlib.sha256(), 0
        try:
            content = self._open(name)
            while chunk := content.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                yield chunk
        except (OSError, KeyError, tarfile.TarError) as error:
            raise BackupError(f"{self.path}: {name} cannot be read: {error}") from None
        if [size, digest.hexdigest()] != self.files[name]:
            raise BackupError(f"{self.path}: {name} is damaged (its SHA-256 differs); use another backup")

    def below(self, folder: str) -> Iterator[str]:
        """The names of the files in ``folder``, in the order in which they were written."""
        return (name for name in self.files if name.startswith(f"{folder}/"))

    def _open(self, name: str) -> IO[bytes]:
        content = self._tar.extractfile(self._members[name])
        assert content is not None
        return content
