"""A task made of a file's questions; what kind of questions they are is told by its ``TaskKind``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from engine.config.task import DatasetConfig
from engine.errors import DataError
from engine.tasks import dataset
from engine.tasks.conversations import encode
from engine.tasks.task import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

C = TypeVar("C", bound=DatasetConfig)
Score = Callable[[Any, str], float]


@dataclass(frozen=True)
class Question:
    """``text`` of the prompt, and the ``data`` that a response is scored with."""

    text: str
    data: Any


@dataclass(frozen=True)
class TaskKind(Generic[C]):
    """``read`` makes a question of a row, DataError if it cannot; ``score`` makes the function from data and response to reward;
    for ``waits`` see ``Task``."""

    read: Callable[[C, dataset.Example], Question]
    score: Callable[[C], Score]
    waits: bool = False


class DatasetTask:
    """Passes over the questions, each in a new order; those kept for validation are the same whatever the seed."""

    def __init__(self, config: DatasetConfig, kind: TaskKind[Any], seed: int, tokenizer: "PreTrainedTokenizerBase") -> None:
        rows = dataset.read(config.path)
        held_out = set(_shuffled("validation", len(rows))[: ceil(config.validation_share * len(rows))])
        kept = [row for index, row in enumerate(rows) if index not in held_out]
        if not kept:
            raise DataError(f"{config.path}: all rows are kept for evaluation; lower task.validation_share")
        validation = dataset.read(config.validation_path) if config.validation_path else [rows[index] for index in sorted(held_out)]
        self._prompts = _prompts(config, kind, tokenizer, kept)
        self._validation = _prompts(config, kind, tokenizer, validation)
        self._places = [row.place for row in (*kept, *validation)]
        self._score = kind.score(config)
        self.waits = kind.waits
        self._seed = seed

    def prompts(self, step: int, count: int) -> list[Prompt]:
        size = len(self._prompts)
        positions = range(step * count, (step + 1) * count)
        orders = {epoch: _shuffled(f"{self._seed}:{epoch}", size) for epoch in {position // size for position in positions}}
        return [self._prompts[orders[position // size][position % size]] for position in positions]

    def validation(self, count: int) -> list[Prompt]:
        return self._validation[:count]

    def reward(self, prompt: Prompt, response: str) -> float:
        return self._score(prompt.data, response)

    def check_lengths(self, limit: int) -> None:
        lengths = [len(prompt.tokens) for prompt in (*self._prompts, *self._validation)]
        too_long = [index for index, length in enumerate(lengths) if length > limit]
        if too_long:
            first = too_long[0]
            raise DataError(
                f"{self._places[first]}: the prompt has {lengths[first]} tokens, more than rollout.max_prompt_tokens={limit}; "
                f"{len(too_long)} of {len(lengths)} prompts are too long, the longest has {max(lengths)} tokens: "
                "raise rollout.max_prompt_tokens or remove them"
            )


def check(config: DatasetConfig, kind: TaskKind[Any]) -> None:
    """DataError names the first row, of either file, that cannot be used. Needs no tokenizer."""
    for path in (config.path, config.validation_path):
        for row in dataset.read(path) if path else ():
            kind.read(config, row)


def _shuffled(seed: str, size: int) -> list[int]:
    order = list(range(size))
    Random(seed).shuffle(order)
    return order


def _prompts(
    config: DatasetConfig, kind: TaskKind[Any], tokenizer: "PreTrainedTokenizerBase", rows: Sequence[dataset.Example]
) -> list[Prompt]:
    questions = [kind.read(config, row) for row in rows]
    texts, tokens = encode(tokenizer, [[config.prompt.format(question=question.text)] for question in questions])
    return [Prompt(text, tuple(ids), question.data) for text, ids, question in zip(texts, tokens, questions, strict=True)]
