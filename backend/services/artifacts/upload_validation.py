"""What an upload may be: safetensors, JSON, text, and archives of those. Nothing that a loader would unpickle: a pickle is a program."""

import errno
import json
import lzma
import tarfile
import zipfile
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from backend.database import storable_text
from backend.errors import UnsupportedError

TEXT = frozenset({".txt", ".md", ".csv", ".tsv", ".log", ".yaml", ".yml", ".jinja", ".toml"})
JSON = frozenset({".json", ".jsonl"})
ALLOWED = "safetensors, JSON, text, and .zip and .tar (not compressed) of those"
MEMBERS = 10_000
HEAD_BYTES = 64 * 1024
HEADER_BYTES = 8 * 2**20
CARD = "README.md"
CARD_BYTES = 256 * 1024

UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    NotImplementedError,
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
)
"""What zipfile and tarfile raise where an archive is damaged, encrypted, or compressed in a way that they do not know."""


def check_upload(name: str, file: Path, max_bytes: int) -> None:
    """UnsupportedError unless the suffix of ``name`` is one that may be kept, and the content is of that kind."""
    archive = {".zip": _zipped, ".tar": _tarred}.get(PurePosixPath(name).suffix.lower())
    if archive is None:
        with file.open("rb") as content:
            _check(name, content, file.stat().st_size)
        return
    try:
        _check_members(name, archive(file), max_bytes)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # the disk's fault, not the archive's
            raise
        raise UnsupportedError(f"{name} is not an archive that can be read: {error}") from None


def model_card(file: Path) -> str | None:
    """The README.md of a zip, in its top folder or the one below; None where there is none."""
    if not zipfile.is_zipfile(file):
        return None
    with suppress(*UNREADABLE), zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            path = PurePosixPath(member.filename)
            if path.name == CARD and len(path.parts) <= 2:
                with archive.open(member) as content:
                    return storable_text(content.read(CARD_BYTES).decode("utf-8", errors="replace"))
    return None


Member = tuple[str, int, Callable[[], IO[bytes]]]


def _check_members(name: str, members: Iterator[Member], max_bytes: int) -> None:
    total = 0
    for number, (member, size, opened) in enumerate(members, 1):
        total += size
        if number > MEMBERS or total > max_bytes:
            raise UnsupportedError(f"{name} has more than {MEMBERS} files, or more than {max_bytes} bytes in them")
        path = PurePosixPath(member)
        if path.is_absolute() or ".." in path.parts or "\\" in member or "\0" in member:
            raise UnsupportedError(f"{name}: {member!r} would be written outside of its folder")
        with opened() as content:
            _check(f"{name}: {member}", content, size)


def _zipped(file: Path) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, member.file_size, partial(archive.open, member)


def _tarred(file: Path) -> Iterator[Member]:
    with tarfile.open(file, "r:") as archive:
        for member in archive:
            if member.isdir():
                continue
            if not member.isreg():
                raise UnsupportedError(f"{file.name}: {member.name!r} is a link or a device")
            yield member.name, member.size, partial(_extracted, archive, member)


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None, "a regular file has content"
    return content


def _check(name: str, content: IO[bytes], size: int) -> None:
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".safetensors":
        _check_safetensors(name, content, size)
    elif suffix in TEXT | JSON:
        _check_text(name, content.read(HEAD_BYTES), size <= HEAD_BYTES, braced=suffix in JSON)
    else:
        raise UnsupportedError(f"{name}: files of this kind are not kept, as they may hold programs (pickle); what is kept: {ALLOWED}")


def _check_safetensors(name: str, content: IO[bytes], size: int) -> None:
    length = int.from_bytes(content.read(8), "little")
    if 2 <= length <= min(HEADER_BYTES, size - 8):
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(content.read(length)), dict):
                return
    raise UnsupportedError(f"{name} is not in the safetensors format")


def _check_text(name: str, head: bytes, whole: bool, braced: bool) -> None:
    with suppress(UnicodeDecodeError):
        start = getincrementaldecoder("utf-8")().decode(head, final=whole)
        if "\0" not in start and not (braced and start.strip() and start.lstrip()[0] not in '{["-0123456789tfn'):
            return
    raise UnsupportedError(f"{name} is not {'JSON' if braced else 'text (UTF-8)'}")
