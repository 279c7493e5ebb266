"""``python file_inspection.py card FILE`` or ``check FILE NAME MAX_BYTES``: looks into a file that nobody has read.

A process of its own, which prints {"refused": why or null, "card": the README.md of a zip or null} as JSON. What it may
take is limited, as a small archive can make its reader large and slow. Uses nothing of this project, to start at once.
"""

import errno
import json
import os
import resource
import stat
import sys
import tarfile
import zipfile
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Self

TEXT = frozenset({".txt", ".md", ".csv", ".tsv", ".log", ".yaml", ".yml", ".jinja", ".toml"})
JSON = frozenset({".json", ".jsonl"})
ALLOWED = "safetensors, JSON, text, and .zip and .tar (not compressed) of those"
CPU_SECONDS, MEMORY_BYTES = 10, 256 * 2**20
MEMBERS = 10_000
HEAD_BYTES, MEMBER_HEAD_BYTES = 64 * 1024, 4 * 1024
HEADER_BYTES = 8 * 2**20
"""Of all safetensors of an upload together."""
EXTENSIONS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
EXTENSION_BYTES = 8 * 1024
"""Of a tar's header that says more of a member, such as a long name: tarfile may take time by the square of its length."""
CARD = "README.md"
CARD_BYTES = 256 * 1024
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What zipfile unpacks no further than asked for."""

UNREADABLE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OverflowError)
"""What zipfile and tarfile raise, beside OSError, where an archive is damaged, encrypted, or compressed in a way that they do not know."""

Member = tuple[str, int, Callable[[], IO[bytes]] | None]
"""Name, size, and how to open it; None is a folder."""


class RefusedError(Exception):
    """Says why a file is not kept."""


class Inspection:
    """Of one upload; RefusedError unless the suffix of ``name`` is one that may be kept, and the content is of that kind."""

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name, self._max_bytes, self._header_bytes = name, max_bytes, HEADER_BYTES

    def check(self, file: Path) -> None:
        archive = {".zip": _zipped, ".tar": _tarred}.get(PurePosixPath(self._name).suffix.lower())
        if archive is None:
            with file.open("rb") as content:
                self._check(self._name, content, file.stat().st_size, HEAD_BYTES)
            return
        try:
            self._check_members(archive(file))
        except (*UNREADABLE, OSError) as error:
            _demand_archives_fault(error)
            raise RefusedError(f"{self._name} is not an archive that can be read: {error}") from None

    def _check_members(self, members: Iterator[Member]) -> None:
        total = 0
        for number, (member, size, opened) in enumerate(members, 1):
            total += size
            if number > MEMBERS or total > self._max_bytes:
                raise RefusedError(f"{self._name} has more than {MEMBERS} files, or more than {self._max_bytes} bytes in them")
            path = PurePosixPath(member)
            if path.is_absolute() or ".." in path.parts or "\\" in member or "\0" in member:
                raise RefusedError(f"{self._name}: {member!r} would be written outside of its folder")
            if opened is not None:
                with opened() as content:
                    self._check(f"{self._name}: {member}", content, size, MEMBER_HEAD_BYTES)

    def _check(self, name: str, content: IO[bytes], size: int, head: int) -> None:
        suffix = PurePosixPath(name).suffix.lower()
        if suffix == ".safetensors":
            self._check_safetensors(name, content, size)
        elif suffix in TEXT | JSON:
            _check_text(name, content.read(head), size <= head, braced=suffix in JSON)
        else:
            raise RefusedError(f"{name}: files of this kind are not kept, as they may hold programs (pickle); what is kept: {ALLOWED}")

    def _check_safetensors(self, name: str, content: IO[bytes], size: int) -> None:
        length = int.from_bytes(content.read(8), "little")
        self._header_bytes -= length
        if length >= 2 and length <= size - 8 and self._header_bytes >= 0:
            with suppress(ValueError, RecursionError):
                if isinstance(json.loads(content.read(length)), dict):
                    return
        raise RefusedError(f"{name} is not in the safetensors format, or the headers here have more than {HEADER_BYTES} bytes")


def _zipped(file: Path) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            _demand_plain(member.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            if member.compress_type not in PACKINGS:
                raise RefusedError(f"{member.filename!r} in it is neither stored nor deflated")
            yield member.filename, member.file_size, None if member.is_dir() else partial(archive.open, member)


class _Header(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type in EXTENSIONS and header.size > EXTENSION_BYTES:
            raise RefusedError(f"a header in it has more than {EXTENSION_BYTES} bytes; give its files shorter names")
        return header


def _tarred(file: Path) -> Iterator[Member]:
    with tarfile.open(file, "r:", tarinfo=_Header) as archive:
        for member in archive:
            _demand_plain(member.name, member.isreg() or member.isdir())
            yield member.name, member.size, None if member.isdir() else partial(_extracted, archive, member)


def _demand_plain(member: str, plain: bool) -> None:
    if not plain:
        raise RefusedError(f"{member!r} in it is a link or a device")


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None, "a regular file has content"
    return content


def _check_text(name: str, head: bytes, whole: bool, braced: bool) -> None:
    with suppress(UnicodeDecodeError):
        start = getincrementaldecoder("utf-8")().decode(head, final=whole)
        if "\0" not in start and not (braced and start.strip() and start.lstrip()[0] not in '{["-0123456789tfn'):
            return
    raise RefusedError(f"{name} is not {'JSON' if braced else 'text (UTF-8)'}")


def card(file: Path) -> str | None:
    """The README.md of a zip, in its top folder or the one below; None where there is none."""
    if not zipfile.is_zipfile(file):
        return None
    try:
        with zipfile.ZipFile(file) as archive:
            return _card_in(archive)
    except (*UNREADABLE, OSError) as error:
        _demand_archives_fault(error)
        return None


def _card_in(archive: zipfile.ZipFile) -> str | None:
    for member in archive.infolist():
        path = PurePosixPath(member.filename)
        if path.name == CARD and len(path.parts) <= 2 and member.compress_type in PACKINGS:
            with archive.open(member) as content:
                return content.read(CARD_BYTES).decode("utf-8", errors="replace")
    return None


def _demand_archives_fault(error: Exception) -> None:
    """An archive that points beyond its end makes reading fail with EINVAL; anything else is the disk's fault, and goes on."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        raise error


def main(action: str, file: str, *given: str) -> None:
    os.nice(10)
    for limit, most in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY_BYTES)):
        resource.setrlimit(limit, (most, most))
    answer: dict[str, str | None] = {"refused": None, "card": None}
    try:
        if action == "check":
            Inspection(given[0], int(given[1])).check(Path(file))
        answer["card"] = card(Path(file))
    except RefusedError as error:
        answer["refused"] = str(error).encode("utf-8", "backslashreplace").decode()  # a tar's names may be no text
    except MemoryError:
        answer["refused"] = f"looking into it takes more than {MEMORY_BYTES // 2**20} MiB of memory"
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
