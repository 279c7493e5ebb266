"""Questions and answers from a JSONL or parquet file, checked row by row."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config import MathConfig
from engine.errors import DataError


@dataclass(frozen=True)
class Row:
    """One question; ``place`` says where it stands, for messages ("line 3")."""

    place: str
    question: str
    answer: str


def read(config: MathConfig) -> list[Row]:
    """All rows of the file. DataError names the file, the place and the fault of the first one that is not usable."""
    path = config.path
    if path.is_dir():
        raise DataError(f"{path}: is a folder; task.path must be a JSONL or parquet file")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    readers = {".jsonl": _jsonl, ".parquet": _parquet}
    if path.suffix not in readers:
        raise DataError(f"{path}: unknown kind of file {path.suffix!r}; use .jsonl or .parquet")
    rows = [_row(config, place, record) for place, record in readers[path.suffix](path)]
    if not rows:
        raise DataError(f"{path}: the dataset is empty")
    return rows


def _jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {number}: not readable as JSON: {error}") from None
            if not isinstance(record, dict):
                raise DataError(f"{path}: line {number}: must be a JSON object, got {_type(record)}")
            yield f"line {number}", record


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow.parquet  # here, so that those who read no parquet do not wait for it

    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as parquet: {error}") from None
    for number, record in enumerate(table.to_pylist(), start=1):
        yield f"row {number}", record


def _row(config: MathConfig, place: str, record: dict[str, Any]) -> Row:
    for column in (config.question, config.answer):
        if column not in record:
            raise DataError(f"{config.path}: {place}: no column {column!r}; the columns are {', '.join(sorted(record)) or 'none'}")
    question, answer = record[config.question], record[config.answer]
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{config.path}: {place}: column {config.question!r} must be a text that is not empty, got {_type(question)}")
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or not str(answer).strip():
        raise DataError(f"{config.path}: {place}: column {config.answer!r} must be a text or a number, got {_type(answer)}")
    return Row(place, question, str(answer))


def _type(value: Any) -> str:
    names = {"str": "an empty text", "NoneType": "null", "list": "a list", "dict": "an object", "bool": "true or false"}
    return names.get(type(value).__name__, f"the value {value!r}"[:80])
