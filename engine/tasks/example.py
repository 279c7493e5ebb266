"""A row of a dataset, whose columns are checked where they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import DataError


@dataclass(frozen=True)
class Example:
    """A row's columns; ``place`` says where it stands, for messages ("data.jsonl: line 3"). DataError names place, column and fault."""

    place: str
    columns: Mapping[str, Any]

    def text(self, *columns: str) -> str:
        """In the first of ``columns`` that holds one."""
        there = [name for name in columns if name in self.columns]
        if not there:
            raise self._missing(*dict.fromkeys(columns))
        column = next((name for name in there if _is_text(self.columns.get(name))), there[0])
        value = self.columns[column]
        if not _is_text(value):
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
            raise self._missing(column)
        return self.columns[column]

    def _missing(self, *columns: str) -> DataError:
        wanted = " or ".join(repr(column) for column in columns)
        return DataError(f"{self.place}: no column {wanted}; the columns are {', '.join(sorted(self.columns)) or 'none'}")

    def _fault(self, column: str, wanted: str, value: Any) -> DataError:
        return DataError(f"{self.place}: column {column!r} must be {wanted}, got {kind(value)}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def kind(value: Any) -> str:
    """What ``value`` is, in a few words."""
    names = {"str": "an empty text", "NoneType": "null", "list": "a list", "dict": "an object", "bool": "true or false"}
    if isinstance(value, str) and value.strip():
        return f"the value {value!r}"[:80]
    return names.get(type(value).__name__, f"the value {value!r}"[:80])
