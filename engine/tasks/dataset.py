"""The rows of a JSONL or parquet file, read from the disk one by one: a file may be larger than the memory."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from engine.errors import DataError
from engine.tasks.example import Example
from engine.tasks.json_lines import JsonLines, json_lines
from engine.tasks.parquet_rows import ParquetRows, parquet_head

HEAD_ROWS = 1000
HEAD_BYTES = 8 * 2**20
"""What is looked at of a file before the job itself reads all of it."""


def read(path: Path) -> Sequence[Example]:
    """All rows of the file, at least one; a row is read from the disk when it is asked for. DataError names the file, the place and the
    fault, of a row when that is asked for."""
    rows = JsonLines(path) if _suffix(path) == ".jsonl" else ParquetRows(path)
    if not rows:
        raise DataError(f"{path}: the dataset is empty")
    return rows


def head(path: Path) -> Iterator[Example]:
    """The file's first rows, at least one, in little memory however large it is. DataError as in ``read``."""
    rows = json_lines(path, HEAD_BYTES) if _suffix(path) == ".jsonl" else parquet_head(path, HEAD_ROWS, HEAD_BYTES)
    found = False
    for row in islice(rows, HEAD_ROWS):
        found = True
        yield row
    if not found:
        raise DataError(f"{path}: the dataset is empty")


def _suffix(path: Path) -> str:
    if path.is_dir():
        raise DataError(f"{path}: is a folder; name a JSONL or parquet file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: may not be read by the user that this runs as; change its permissions")
    if path.suffix not in (".jsonl", ".parquet"):
        raise DataError(f"{path}: unknown kind of file {path.suffix!r}; use .jsonl or .parquet")
    return path.suffix
