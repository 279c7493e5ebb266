"""Rows of prompts and responses. Needs no tokenizer, and imports nothing heavy."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.tasks import dataset
from engine.tasks.example import Example

PROMPT, RESPONSE = ("prompt", "question"), ("response", "answer")
"""Names that a column may have; the first that is there counts."""


def pairs(rows: Iterable[Example]) -> Iterator[tuple[str, str]]:
    """(prompt, response) of every row; DataError names the first that lacks one of them."""
    return ((row.text(*PROMPT), row.text(*RESPONSE)) for row in rows)


def check(path: Path) -> None:
    """DataError names the first row at the beginning of the file that lacks one of them."""
    for _ in pairs(dataset.head(path)):
        pass
