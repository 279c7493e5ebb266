"""Rows of a JSONL or parquet file, checked where they are read."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import DataError


@dataclass(frozen=True)
class Example:
    """A row's columns; ``place`` says where it stands, for messages ("data.jsonl: line 3"). DataError names place, column and fault."""

    place: str
    columns: Mapping[str, Any]

    def text(self, column: str) -> str:
        value = self._value(column)
        if not isinstance(value, str) or not value.strip():
            raise self._fault(column, "a text that is not empty", value)
        return self._encodable(column, value)

    def text_or_number(self, column: str) -> str:
        value = self._value(column)
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
            raise self._fault(column, "a text or a number", value)
        return str(value)

    def texts(self, column: str, least: int, most: int) -> list[str]:
        """``least`` to ``most`` texts or numbers."""
        value = self._value(column)
        if not isinstance(value, list) or not least <= len(value) <= most or any(isinstance(item, dict | list | None) for item in value):
            raise self._fault(column, f"a list of {least} to {most} texts", value)
        return [self._encodable(column, str(item)) for item in value]

    def _encodable(self, column: str, text: str) -> str:
        """JSON can hold halves of characters, \\ud83d and the like, which no tokenizer reads."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = text[error.start : error.end]
            raise DataError(f"{self.place}: column {column!r} has half of a character ({half!r}); remove that or the row") from None
        return text

    def _value(self, column: str) -> Any:
        if column not in self.columns:
            raise DataError(f"{self.place}: no column {column!r}; the columns are {', '.join(sorted(self.columns)) or 'none'}")
        return self.columns[column]

    def _fault(self, column: str, wanted: str, value: Any) -> DataError:
        return DataError(f"{self.place}: column {column!r} must be {wanted}, got {_kind(value)}")


def read(path: Path) -> list[Example]:
    """All rows of the file, at least one. DataError names the file, the place and the fault of the first one that is not readable."""
    if path.is_dir():
        raise DataError(f"{path}: is a folder; task.path must be a JSONL or parquet file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    readers = {".jsonl": _jsonl, ".parquet": _parquet}
    if path.suffix not in readers:
        raise DataError(f"{path}: unknown kind of file {path.suffix!r}; use .jsonl or .parquet")
    rows = list(readers[path.suffix](path))
    if not rows:
        raise DataError(f"{path}: the dataset is empty")
    return rows


def _jsonl(path: Path) -> Iterator[Example]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {number}: not readable as JSON: {error}") from None
            if not isinstance(record, dict):
                raise DataError(f"{path}: line {number}: must be a JSON object, got {_kind(record)}")
            yield Example(f"{path}: line {number}", record)


def _parquet(path: Path) -> Iterator[Example]:
    import pyarrow.parquet  # here, so that those who read no parquet do not wait for it

    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as parquet: {error}") from None
    for number, record in enumerate(table.to_pylist(), start=1):
        yield Example(f"{path}: row {number}", record)


def _kind(value: Any) -> str:
    names = {"str": "an empty text", "NoneType": "null", "list": "a list", "dict": "an object", "bool": "true or false"}
    if isinstance(value, str) and value.strip():
        return f"the value {value!r}"[:80]
    return names.get(type(value).__name__, f"the value {value!r}"[:80])
