"""Prompts and responses from a file, to train a drafter on in place of what the model would write."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import DataError
from engine.rollout.interface import PartialResponse, Request
from engine.tasks.conversations import encode
from engine.tasks.response_rows import response_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class GivenResponses:
    """The file's rows as requests that have been answered already; past its end it begins anew."""

    def __init__(self, path: Path, tokenizer: "PreTrainedTokenizerBase", longest: int) -> None:
        """DataError if the file is not readable, or has a row without a prompt or response. Responses are cut to what ``longest`` tokens
        leave them; rows whose prompt alone is longer are left out."""
        rows = response_rows(path)
        _, prompts = encode(tokenizer, [[prompt] for prompt, _ in rows])
        responses: Sequence[list[int]] = tokenizer([response for _, response in rows], add_special_tokens=False).input_ids
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
