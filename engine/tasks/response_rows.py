"""Rows of prompts and responses. Needs no tokenizer, and imports nothing heavy."""

from collections.abc import Sequence
from pathlib import Path

from engine.tasks import dataset
from engine.tasks.dataset import Example

PROMPT, RESPONSE = ("prompt", "question"), ("response", "answer")
"""Names that a column may have; the first that is there counts."""


def response_rows(path: Path) -> list[tuple[str, str]]:
    """(prompt, response) of every row; DataError names the first that lacks one of them."""
    return [(_text(row, PROMPT), _text(row, RESPONSE)) for row in dataset.read(path)]


def _text(row: Example, names: Sequence[str]) -> str:
    return row.text(next((name for name in names if name in row.columns), names[0]))
