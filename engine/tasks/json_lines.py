"""Rows of a JSONL file."""

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, overload

from engine.errors import DataError
from engine.tasks.example import Example, kind

LONGEST_LINE, LONGEST_ROW = 4 * 2**20, 256 * 2**20
"""In bytes, where a file is looked at only, and where it is used: one without line ends must not fill the memory."""


class JsonLines(Sequence[Example]):
    """All rows; in memory is where each begins, 8 bytes a row. Each look at one opens the file anew, so that threads may share this."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        self._blanks = array("Q")  # before which row there is a blank line
        with path.open("rb") as file:
            for _, start, line in _lines(path, file, LONGEST_ROW):
                if line.isspace():
                    self._blanks.append(len(self._starts))
                else:
                    self._starts.append(start)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        start = self._starts[index]
        with self._path.open("rb") as file:
            file.seek(start)
            line = file.readline()
        index %= len(self)
        return _example(self._path, index + 1 + bisect_right(self._blanks, index), line)

    def __iter__(self) -> Iterator[Example]:
        return json_lines(self._path)


def json_lines(path: Path, most_bytes: int | None = None) -> Iterator[Example]:
    """The rows one after the other, as long as they begin within the first ``most_bytes``."""
    with path.open("rb") as file:
        for number, start, line in _lines(path, file, LONGEST_ROW if most_bytes is None else LONGEST_LINE):
            if most_bytes is not None and start >= most_bytes:
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
        raise DataError(f"{place}: not readable as JSON: {error}") from None
    if not isinstance(record, dict):
        raise DataError(f"{place}: must be a JSON object, got {kind(record)}")
    return Example(place, record)
