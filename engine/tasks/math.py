"""Maths questions with a known answer; a response is right if math-verify finds the answer equal."""

from random import Random
from typing import TYPE_CHECKING, cast

from engine.config import MathConfig
from engine.errors import DataError
from engine.tasks import dataset
from engine.tasks.base import Prompt
from engine.tasks.checker import Checker

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class MathTask:
    """Passes over the dataset, each in a new order. ``Prompt.data`` is the expected answer."""

    def __init__(self, config: MathConfig, seed: int, tokenizer: "PreTrainedTokenizerBase") -> None:
        rows = dataset.read(config)
        texts, tokens = _encode(tokenizer, [config.prompt.format(question=row.question) for row in rows])
        self._prompts = [Prompt(text, tuple(ids), expected(row.answer)) for row, text, ids in zip(rows, texts, tokens, strict=True)]
        self._places = [f"{config.path}: {row.place}" for row in rows]
        self._seed = seed
        self._checker = Checker()

    def prompts(self, step: int, count: int) -> list[Prompt]:
        size = len(self._prompts)
        positions = range(step * count, (step + 1) * count)
        orders = {epoch: self._order(epoch) for epoch in {position // size for position in positions}}
        return [self._prompts[orders[position // size][position % size]] for position in positions]

    def reward(self, prompt: Prompt, response: str) -> float:
        return float(self._checker.equal(prompt.data, response))

    def check_lengths(self, limit: int) -> None:
        lengths = [len(prompt.tokens) for prompt in self._prompts]
        too_long = [index for index, length in enumerate(lengths) if length > limit]
        if too_long:
            first = too_long[0]
            raise DataError(
                f"{self._places[first]}: the prompt has {lengths[first]} tokens, more than rollout.max_prompt_tokens={limit}; "
                f"{len(too_long)} of {len(lengths)} prompts are too long, the longest has {max(lengths)} tokens: "
                "raise rollout.max_prompt_tokens or remove them"
            )

    def _order(self, epoch: int) -> list[int]:
        order = list(range(len(self._prompts)))
        Random(f"{self._seed}:{epoch}").shuffle(order)
        return order


def expected(answer: str) -> str:
    """The part of a GSM8K answer after ``####``, or the whole answer, marked as mathematics for math-verify."""
    answer = answer.rpartition("####")[2].strip()
    return answer if "\\boxed" in answer or "$" in answer else f"\\boxed{{{answer}}}"


def _encode(tokenizer: "PreTrainedTokenizerBase", texts: list[str]) -> tuple[list[str], list[list[int]]]:
    """Texts and token ids; a chat template, if there is one, writes its special tokens itself."""
    if not tokenizer.chat_template:
        return texts, tokenizer(texts).input_ids
    chats = [[{"role": "user", "content": text}] for text in texts]
    rendered = cast(list[str], tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True))
    return rendered, tokenizer(rendered, add_special_tokens=False).input_ids
