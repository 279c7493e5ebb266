"""Rows of a JSONL file."""

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, overload
from zlib import crc32

from engine.errors import DataError
from engine.tasks.example import Example, kind

LONGEST_LINE, LONGEST_ROW = 4 * 2**20, 256 * 2**20
"""In bytes, where a file is looked at only, and where it is used: one without line ends must not fill the memory."""


class JsonLines(Sequence[Example]):
    """All rows; in memory are where each begins and its checksum, 12 bytes a row. Each look at one opens the file anew, so that threads
    may share this. DataError if it is not what it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts, self._sums = array("Q"), array("I")
        self._blanks = array("Q")  # before which row there is a blank line
        with path.open("rb") as file:
            for _, start, line in _lines(path, file, LONGEST_ROW):
                if line.isspace():
                    self._blanks.append(len(self._starts))
                else:
                    self._starts.append(start)
                    self._sums.append(crc32(line))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        start, index = self._starts[index], index % len(self)
        with self._opened() as file:
            file.seek(start)
            line = file.readline(LONGEST_ROW)
        return self._row(index, index + 1 + bisect_right(self._blanks, index), line)

    def __iter__(self) -> Iterator[Example]:
        with self._opened() as file:
            lines = ((number, line) for number, _, line in _lines(self._path, file, LONGEST_ROW) if not line.isspace())
            for index in range(len(self)):
                yield self._row(index, *next(lines, (0, b"")))

    def _opened(self) -> BinaryIO:
        try:
            return self._path.open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            raise self._changed() from None

    def _row(self, index: int, number: int, line: bytes) -> Example:
        if crc32(line) != self._sums[index]:
            raise self._changed()
        return _example(self._path, number, line)

    def _changed(self) -> DataError:
        return DataError(f"{self._path}: was changed while it was in use; leave a data file as it is until its runs have ended")


def json_lines(path: Path, most_bytes: int) -> Iterator[Example]:
    """The rows one after the other, as long as they begin within the first ``most_bytes``."""
    with path.open("rb") as file:
        for number, start, line in _lines(path, file, LONGEST_LINE):
            if start >= most_bytes:
                return
            if not line.isspace():
                yield _example(path, number, line)


def _lines(path: Path, file: BinaryIO, longest: int) -> Iterator[tuple[int, int, bytes]]:
    """Number of each line, where it begins, and itself. DataError if one is longer than ``longest``."""
    number = start = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise DataError(f"{path}: line {number}: longer than {longest // 2**20} MiB; a JSONL file has one row in each line")
        yield number, start, line
        start += len(line)


def _example(path: Path, number: int, line: bytes) -> Example:
    place = f"{path}: line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        if json.detect_encoding(line).startswith("utf-16"):
            raise DataError(f"{place}: the file is in UTF-16; save it as UTF-8") from None
        raise DataError(f"{place}: not readable as JSON: {error}") from None
    if not isinstance(record, dict):
        raise DataError(f"{place}: must be a JSON object, got {kind(record)}")
    return Example(place, record)
