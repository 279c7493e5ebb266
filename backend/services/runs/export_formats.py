"""Tables as bytes, a batch of rows at a time: CSV, JSON (an array of objects) and Parquet. Nothing is held but the batch at hand,
which is never empty."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Batches = Iterable[Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Column:
    name: str
    kind: Literal["text", "integer", "number"]


def as_csv(columns: Sequence[Column], batches: Batches) -> Iterator[bytes]:
    """UTF-8 with a heading; null is empty. A text that a spreadsheet would take for a formula has an apostrophe before it."""
    yield _csv([[column.name for column in columns]])
    for rows in batches:
        yield _csv([[_harmless(value) for value in row] for row in rows])


def as_json(columns: Sequence[Column], batches: Batches) -> Iterator[bytes]:
    """One row a line."""
    names, separator = [column.name for column in columns], "[\n"
    for rows in batches:
        lines = ",\n".join(json.dumps(dict(zip(names, row, strict=True)), separators=(",", ":")) for row in rows)
        yield f"{separator}{lines}".encode()
        separator = ",\n"
    yield b"[]\n" if separator == "[\n" else b"\n]\n"


def as_parquet(columns: Sequence[Column], batches: Batches) -> Iterator[bytes]:
    """A row group for each batch, compressed."""
    import pyarrow
    from pyarrow import parquet

    kinds = {"text": pyarrow.string(), "integer": pyarrow.int64(), "number": pyarrow.float64()}
    schema = pyarrow.schema([(column.name, kinds[column.kind]) for column in columns])
    out = _Outbox()
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for rows in batches:
            arrays = [pyarrow.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            yield out.taken()
    yield out.taken()


FORMATS: dict[str, tuple[str, Callable[[Sequence[Column], Batches], Iterator[bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "json": ("application/json", as_json),
    "parquet": ("application/vnd.apache.parquet", as_parquet),
}
"""Media type and writer."""


class _Outbox(io.RawIOBase):
    """A file that is never kept: what is written waits to be taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._written += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
