"""Prompts and responses from a file, to train a drafter on in place of what the model would write."""

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch

from engine.drafter.data_buffer import HELD_OUT_EVERY, group_of
from engine.errors import DataError
from engine.rollout.interface import PartialResponse, Request
from engine.tasks import dataset
from engine.tasks.conversations import encode
from engine.tasks.example import Example
from engine.tasks.response_rows import pairs

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOGETHER = 256
"""Rows that are tokenised at a time."""
CHARACTERS = 16
"""Of a text for each token that there is room for; what is behind them is not even tokenised, and with a longer prompt a row is left out.
Tokens of text have four or so."""


RAISED_BY = "rollout.max_new_tokens (--max-new-tokens)"


class Tokens(NamedTuple):
    """Those of a row; ``cut``: its response would go on."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]
    cut: bool


NOTHING = Tokens((), (), cut=False)


class GivenResponses:
    """The file's rows as requests that have been answered already, in an order that ``seed`` decides on; past the last one it begins anew.
    Nothing else of it is in memory. Its length is the number of rows that are of use."""

    def __init__(self, path: Path, tokenizer: "PreTrainedTokenizerBase", longest: int, seed: int) -> None:
        """DataError if the file is not readable, or has a row without a prompt or response. Responses are cut to what ``longest`` tokens
        leave them; rows whose prompt alone is longer, or no token, are left out."""
        self._rows, self._tokenizer, self.longest = dataset.read(path), tokenizer, longest
        self._usable, place, rows = array("Q"), 0, iter(self._rows)
        self.token_counts = Counter[int]()
        """How often tokens occur in the rows that are of use, but for those that are held out of training."""
        self.cut = 0
        """Rows that are of use, but whose responses are cut."""
        while some := list(islice(rows, TOGETHER)):
            for index, (prompt, response, cut) in enumerate(self._tokens(some), place):
                if prompt and response:
                    self._usable.append(index)
                    self.cut += cut
                    if group_of(torch.tensor(prompt)) % HELD_OUT_EVERY:
                        self.token_counts.update((*prompt, *response))
            place += len(some)
        self.left_out = place - len(self._usable)
        """Rows that are of no use."""
        if not self._usable:
            raise DataError(f"{path}: no row has a prompt and a response within {longest} tokens; {RAISED_BY} raises that")
        Random(seed).shuffle(self._usable)  # the first rows judge all others, and a file often has one kind of rows after the other

    def __len__(self) -> int:
        return len(self._usable)

    def requests(self, first: int, count: int) -> list[Request]:
        """``count`` rows after the ``first`` ones, but none behind the last one: there the next call begins anew. Of a file with
        fewer rows than that, as many all the same: every worker needs some."""
        left = len(self) - first % len(self)
        places = range(first, first + (min(count, left) if count <= len(self) else count))
        chosen = self._tokens([self._rows[self._usable[place % len(self)]] for place in places])
        return [Request(place, place, row.prompt, PartialResponse(row.response)) for place, row in zip(places, chosen, strict=True)]

    def _tokens(self, rows: Sequence[Example]) -> list[Tokens]:
        prompts, texts = zip(*pairs(rows), strict=True)
        most = CHARACTERS * self.longest
        _, encoded = encode(self._tokenizer, [[prompt[:most]] for prompt in prompts])
        responses: Sequence[list[int]] = self._tokenizer([text[:most] for text in texts], add_special_tokens=False, verbose=False).input_ids
        ends = [self._tokenizer.eos_token_id] if isinstance(self._tokenizer.eos_token_id, int) else []
        found = []
        for prompt, ids, text, response in zip(prompts, encoded, texts, responses, strict=True):
            room = self.longest - len(ids) if len(prompt) <= most else 0
            whole = [*response, *(ends if len(text) <= most else [])]
            found.append(Tokens(tuple(ids), tuple(whole[:room]), len(text) > most or len(whole) > room) if room > 0 else NOTHING)
        return found
