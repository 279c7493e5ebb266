"""Rows of prompts and responses. Needs no tokenizer, and imports nothing heavy."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from engine.tasks import dataset
from engine.tasks.example import Example

PROMPT, RESPONSE = ("prompt", "question"), ("response", "answer")
"""Names that a column may have; the first that is there counts."""


def pairs(rows: Iterable[Example]) -> Iterator[tuple[str, str]]:
    """(prompt, response) of every row; DataError names the first that lacks one of them."""
    return ((_text(row, PROMPT), _text(row, RESPONSE)) for row in rows)


def check(path: Path) -> None:
    """DataError names the first row at the beginning of the file that lacks one of them."""
    for _ in pairs(dataset.head(path)):
        pass


def _text(row: Example, names: Sequence[str]) -> str:
    return row.text(next((name for name in names if name in row.columns), names[0]))
