"""A task made of a file's questions; what kind of questions they are is told by its ``TaskKind``."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from engine.config.task import DatasetConfig
from engine.errors import DataError
from engine.tasks import dataset
from engine.tasks.conversations import encode
from engine.tasks.example import Example
from engine.tasks.task import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

C = TypeVar("C", bound=DatasetConfig)
Score = Callable[[Any, str], float]
TOGETHER = 256
"""Rows that are tokenised at a time while all of them are checked."""
CHARACTERS = 64
"""Of a question for each token that there is room for: what has more is refused, and not tokenised to its end, which may take minutes.
Tokens of text have four or so."""


@dataclass(frozen=True)
class Question:
    """``text`` of the prompt, and the ``data`` that a response is scored with."""

    text: str
    data: Any


class Length(NamedTuple):
    """Of a prompt, in ``tokens``; ``more``: "or more ", where it was not read to its end."""

    tokens: int
    more: str

    def __str__(self) -> str:
        return f"{self.tokens} {self.more}".strip()


@dataclass(frozen=True)
class TaskKind(Generic[C]):
    """``read`` makes a question of a row, DataError if it cannot; ``score`` makes the function from data and response to reward;
    for ``waits`` see ``Task``."""

    read: Callable[[C, Example], Question]
    score: Callable[[C], Score]
    waits: bool = False


class DatasetTask:
    """Passes over the questions, each in a new order; those kept for validation are the same whatever the seed. All stay in their file
    until they are asked for."""

    def __init__(self, config: DatasetConfig, kind: TaskKind[Any], seed: int, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._config, self._kind, self._tokenizer = config, kind, tokenizer
        self._rows = dataset.read(config.path)
        held_out = self._held_out(config.validation_share)
        self._kept = _others(held_out, len(self._rows))
        if not self._kept:
            raise DataError(f"{config.path}: all rows are kept for evaluation; lower task.validation_share")
        self._validation_rows = dataset.read(config.validation_path) if config.validation_path else self._rows
        self._validation: Sequence[int] = range(len(self._validation_rows)) if config.validation_path else held_out
        self._score = kind.score(config)
        self.waits = kind.waits
        self._seed = seed
        trained = len(self._kept)
        self._order = lru_cache(maxsize=2)(lambda epoch: _shuffled(f"{seed}:{epoch}", trained))

    def prompts(self, step: int, count: int) -> list[Prompt]:
        turns = (divmod(position, len(self._kept)) for position in range(step * count, (step + 1) * count))
        return self._encoded(self._rows[self._kept[self._order(epoch)[place]]] for epoch, place in turns)

    def validation(self, count: int) -> list[Prompt]:
        return self._encoded(self._validation_rows[place] for place in self._validation[:count])

    def reward(self, prompt: Prompt, response: str) -> float:
        return self._score(prompt.data, response)

    def check_lengths(self, limit: int) -> None:
        """Reads every row of the files, which DataError says what is wrong with, too."""
        first, longest, too_long, count = "", Length(0, ""), 0, 0
        for rows in self._all_rows():
            for row, length in zip(rows, self._lengths(rows, limit), strict=True):
                if not length.tokens:
                    raise DataError(f"{row.place}: the model's tokenizer makes no token of the prompt; remove it")
                first = first or (f"{row.place}: the prompt has {length}" if length.tokens > limit else "")
                longest, too_long, count = max(longest, length), too_long + (length.tokens > limit), count + 1
        if first:
            raise DataError(
                f"{first} tokens, more than rollout.max_prompt_tokens={limit}; "
                f"{too_long} of {count} prompts are too long, the longest has {longest} tokens: "
                "raise rollout.max_prompt_tokens or remove them"
            )

    def _lengths(self, rows: Sequence[Example], limit: int) -> list[Length]:
        """Of each row's prompt; of one that is much too long that of its beginning."""
        questions = [self._kind.read(self._config, row).text for row in rows]
        most = CHARACTERS * limit
        _, tokens = self._encode([question[:most] for question in questions])
        return [
            Length(max(len(ids), limit + 1), "or more ") if len(question) > most else Length(len(ids), "")
            for question, ids in zip(questions, tokens, strict=True)
        ]

    def _held_out(self, share: float) -> Sequence[int]:
        """At least that share of the rows, chosen by what their prompts say: all rows of a prompt are on one side."""
        if not share:
            return ()
        prompts = np.fromiter((_digest(self._kind.read(self._config, row).text) for row in self._rows), np.uint64, len(self._rows))
        place = ceil(share * len(prompts)) - 1
        return array("Q", np.flatnonzero(prompts <= np.partition(prompts, place)[place]).astype(np.uint64).tobytes())

    def _all_rows(self) -> Iterator[list[Example]]:
        """A few at a time, in the order of the files."""
        files = [self._rows] if self._validation_rows is self._rows else [self._rows, self._validation_rows]
        rows = chain.from_iterable(files)
        while some := list(islice(rows, TOGETHER)):
            yield some

    def _encoded(self, rows: Iterable[Example]) -> list[Prompt]:
        questions = [self._kind.read(self._config, row) for row in rows]
        texts, tokens = self._encode([question.text for question in questions])
        return [Prompt(text, tuple(ids), question.data) for text, ids, question in zip(texts, tokens, questions, strict=True)]

    def _encode(self, questions: Sequence[str]) -> tuple[list[str], list[list[int]]]:
        return encode(self._tokenizer, [[self._config.prompt.format(question=question)] for question in questions])


def check(config: DatasetConfig, kind: TaskKind[Any]) -> None:
    """DataError names the first row at the beginning of either file that cannot be used. Needs no tokenizer."""
    for path in (config.path, config.validation_path):
        for row in dataset.head(path) if path else ():
            kind.read(config, row)


def _digest(prompt: str) -> int:
    return int.from_bytes(blake2b(prompt.encode(), digest_size=8).digest())


def _shuffled(seed: str, size: int) -> "array[int]":
    order = array("Q", range(size))
    Random(seed).shuffle(order)
    return order


def _others(left_out: Sequence[int], size: int) -> Sequence[int]:
    """The numbers below ``size`` without those, which are sorted."""
    if not left_out:
        return range(size)
    gaps = zip([-1, *left_out], [*left_out, size], strict=True)
    return array("Q", chain.from_iterable(range(before + 1, after) for before, after in gaps))
