"""Prompts and responses from a file, to train a drafter on in place of what the model would write."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import DataError
from engine.rollout.interface import PartialResponse, Request
from engine.tasks import dataset
from engine.tasks.dataset import Example
from engine.tasks.dataset_task import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PROMPT, RESPONSE = ("prompt", "question"), ("response", "answer")
"""Names that a column may have; the first that is there counts."""


class GivenResponses:
    """The file's rows as requests that have been answered already; past its end it begins anew."""

    def __init__(self, path: Path, tokenizer: "PreTrainedTokenizerBase", longest: int) -> None:
        """DataError if the file is not readable, or has a row without a prompt or response. Responses are cut to what ``longest`` tokens
        leave them; rows whose prompt alone is longer are left out."""
        rows = check(path)
        _, prompts = encode(tokenizer, [_column(row, PROMPT) for row in rows])
        responses: Sequence[list[int]] = tokenizer([_column(row, RESPONSE) for row in rows], add_special_tokens=False).input_ids
        ends = [tokenizer.eos_token_id] if isinstance(tokenizer.eos_token_id, int) else []
        pairs = [
            (tuple(prompt), tuple([*response, *ends][: longest - len(prompt)])) for prompt, response in zip(prompts, responses, strict=True)
        ]
        self._pairs = [(prompt, response) for prompt, response in pairs if len(prompt) < longest and response]
        if not self._pairs:
            raise DataError(f"{path}: no row has a prompt and a response within {longest} tokens, which is all that the model can hold")

    def requests(self, number: int, count: int) -> list[Request]:
        """``count`` rows, those of round ``number``."""
        places = range(number * count, (number + 1) * count)
        chosen = [self._pairs[place % len(self._pairs)] for place in places]
        return [Request(place, place, prompt, PartialResponse(response)) for place, (prompt, response) in zip(places, chosen, strict=True)]


def check(path: Path) -> list[Example]:
    """The rows; DataError names the first that lacks a prompt or a response. Needs no tokenizer."""
    rows = dataset.read(path)
    for row in rows:
        _column(row, PROMPT), _column(row, RESPONSE)
    return rows


def _column(row: Example, names: Sequence[str]) -> str:
    return row.text(next((name for name in names if name in row.columns), names[0]))
