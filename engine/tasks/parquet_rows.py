"""Rows of a parquet file."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from engine.errors import DataError
from engine.tasks.example import Example
from engine.tasks.json_lines import LONGEST_LINE

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

ROWS = 256
"""Read from the file at a time."""


class ParquetRows(Sequence[Example]):
    """All rows. They are unpacked into a temporary file (TMPDIR), as parquet gives whole groups of rows only; memory holds what is looked
    at. The file has no name any more, so that nothing is left of it when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _opened(path) as file:
            self._table = _unpacked(path, file.schema_arrow, _batches(path, file, 16 * ROWS))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        place = range(len(self))[index]
        return _example(self._path, place, self._table.slice(place, 1).to_pylist()[0])


def parquet_head(path: Path, rows: int, most_bytes: int) -> Iterator[Example]:
    """The first ``rows`` rows, as long as they begin within about ``most_bytes``. DataError if they are so long that few would fit."""
    with _opened(path) as file:
        place = start = 0
        for batch in _batches(path, file, _at_a_time(path, file)):
            for record in batch.to_pylist():
                if place == rows or start >= most_bytes:
                    return
                yield _example(path, place, record)
                place += 1
            start += batch.nbytes


def _at_a_time(path: Path, file: "pyarrow.parquet.ParquetFile") -> int:
    """How many rows take about LONGEST_LINE bytes, by what the file says of itself."""
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    longest = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    if longest > LONGEST_LINE:
        raise DataError(f"{path}: has rows of {longest // 2**20} MiB; {LONGEST_LINE // 2**20} MiB is the most")
    return min(ROWS, LONGEST_LINE // max(longest, 1))


def _unpacked(path: Path, schema: "pyarrow.Schema", batches: "Iterator[pyarrow.RecordBatch]") -> Any:
    """A table in a temporary file. That is a stream, in which the dictionary of a column may be another one in each group of rows."""
    import pyarrow

    try:
        with tempfile.NamedTemporaryFile(prefix="longtail-rows-") as unpacked:
            with pyarrow.ipc.new_stream(unpacked, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            unpacked.flush()
            return pyarrow.ipc.open_stream(pyarrow.memory_map(unpacked.name)).read_all()
    except OSError as error:
        raise DataError(f"{path}: no room to unpack it in {tempfile.tempdir}: {error}; TMPDIR names the folder for that") from None


def _batches(path: Path, file: "pyarrow.parquet.ParquetFile", rows: int) -> "Iterator[pyarrow.RecordBatch]":
    """Each of one group of rows: pyarrow cannot put lists with a dictionary of two groups into one."""
    with _readable(path):
        for group in range(file.num_row_groups):
            yield from file.iter_batches(rows, row_groups=[group])


@contextmanager
def _opened(path: Path) -> "Iterator[pyarrow.parquet.ParquetFile]":
    """DataError if it is not readable, which may turn out later only."""
    import pyarrow.parquet  # here, so that those who read no parquet do not wait for it

    with _readable(path), pyarrow.parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False) as file:
        yield file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What goes wrong within is the file's fault."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as parquet: {error}") from None


def _example(path: Path, place: int, record: dict[str, Any]) -> Example:
    return Example(f"{path}: row {place + 1}", record)
