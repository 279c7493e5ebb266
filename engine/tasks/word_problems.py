"""Everyday arithmetic, for small models that follow instructions: right if the last number of the response is the answer.

Before a problem the conversation has solved ones of the same kind. They show how a solution is written, and more of them make it easier::

    Ida has 9 nuts and gives 4 of them to Ben. How many nuts does Ida have left?                          user
    Ida has 9 nuts and gives 4 of them to Ben. 9 - 4 = 5. The answer is 5.                                model
    Leo has 7 coins and gives 2 of them to Kate. How many coins does Leo have left?                       user
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, floordiv, mul, sub
from random import Random
from typing import TYPE_CHECKING

from engine.config.task import WordProblemsConfig
from engine.errors import DataError
from engine.tasks.conversations import encode
from engine.tasks.task import Prompt
from engine.tasks.word_problem_patterns import ONE_STEP, TWO_STEPS, WORDS, Pattern

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OPERATIONS = {"+": add, "-": sub, "*": mul, "/": floordiv}
PLACES = "abc"
LEAST = 2
"""Of numbers, so that their nouns are plurals."""
_NUMBER = re.compile(r"(?<![A-Za-z\d])(?<![^.]\.)[-\u2212]?(?>\d{1,3}(?:,\d{3})+(?!\d)|\d++)(?:\.\d++)?+(?![eE][-+]?\d)", re.ASCII)


@dataclass(frozen=True)
class Problem:
    """``solution`` is as a model might write it, and ends in the ``answer``."""

    text: str
    solution: str
    answer: int


def results(operators: str, numbers: Sequence[int], largest: int) -> list[int] | None:
    """What each operator makes, from left to right; None if that is below LEAST, above ``largest`` or no whole number."""
    found, left = [], numbers[0]
    for operator, right in zip(operators, numbers[1:], strict=True):
        if operator == "/" and left % right:
            return None
        left = OPERATIONS[operator](left, right)
        if not LEAST <= left <= largest:
            return None
        found.append(left)
    return found


def filled(pattern: Pattern, words: Mapping[str, str], numbers: Sequence[int], found: Sequence[int]) -> Problem:
    """The problem with these words, numbers and results."""
    given = {**words, **dict(zip(PLACES, numbers, strict=False))}
    story, question = pattern.story.format(**given), pattern.question.format(**given)
    steps = zip((numbers[0], *found), pattern.operators, numbers[1:], found, strict=False)
    equations = " ".join(f"{left} {operator} {right} = {result}." for left, operator, right, result in steps)
    return Problem(f"{story} {question}", f"{story} {equations} The answer is {found[-1]}.", found[-1])


def generate(rng: Random, pattern: Pattern, largest: int, count: int) -> list[Problem]:
    """``count`` problems of one pattern, one after the other with other numbers. Numbers, results on the way included, are at most
    ``largest``."""
    problems: list[Problem] = []
    before: list[int] = []
    while len(problems) < count:
        numbers = [rng.randint(LEAST, largest) for _ in PLACES[: len(pattern.operators) + 1]]
        found = results(pattern.operators, numbers, largest)
        if found and numbers != before:
            problems.append(filled(pattern, _words(rng), numbers, found))
            before = numbers
    return problems


def _words(rng: Random) -> dict[str, str]:
    name, other = rng.sample(WORDS["name"], 2)
    return {place: rng.choice(choices) for place, choices in WORDS.items()} | {"name": name, "other": other}


def reward(problem: Problem, response: str) -> float:
    """1.0 if the last number of the response is the answer, else 0.0."""
    numbers = _NUMBER.findall(response)
    return float(bool(numbers) and float(numbers[-1].replace(",", "").replace("\u2212", "-")) == problem.answer)


class WordProblemsTask:
    """Endless generated problems. ``Prompt.data`` is the Problem."""

    waits = False

    def __init__(self, config: WordProblemsConfig, seed: int, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._config, self._seed, self._tokenizer = config, seed, tokenizer

    def prompts(self, step: int, count: int) -> list[Prompt]:
        """Every step has the same share of problems of two steps, as nearly as ``count`` allows, so that steps can be compared."""
        return self._drawn(f"{self._seed}:{step}", count)

    def validation(self, count: int) -> list[Prompt]:
        """Now and then one of them may be among the training's, as problems are drawn anew at each step."""
        return self._drawn("validation", count)

    def _drawn(self, seed: str, count: int) -> list[Prompt]:
        rng = Random(seed)
        hard = int(count * self._config.two_steps + rng.random())
        patterns = [rng.choice(TWO_STEPS if index < hard else ONE_STEP) for index in range(count)]
        rng.shuffle(patterns)
        return self._prompts([generate(rng, pattern, self._config.largest, self._config.examples + 1) for pattern in patterns])

    def _prompts(self, problems: Sequence[Sequence[Problem]]) -> list[Prompt]:
        """The last of each are asked, those before it are its examples."""
        turns = [[turn for each in same for turn in (each.text, each.solution)][:-1] for same in problems]
        texts, tokens = encode(self._tokenizer, turns)
        return [Prompt(text, tuple(ids), same[-1]) for text, ids, same in zip(texts, tokens, problems, strict=True)]

    def reward(self, prompt: Prompt, response: str) -> float:
        return reward(prompt.data, response)

    def check_lengths(self, limit: int) -> None:
        words = {place: max(choices, key=lambda word: len(self._tokenizer(f" {word}").input_ids)) for place, choices in WORDS.items()}
        numbers = [self._config.largest] * len(PLACES)
        patterns = (*ONE_STEP, *(TWO_STEPS if self._config.two_steps else ()))
        most = [[filled(pattern, words, numbers, numbers[: len(pattern.operators)])] * (self._config.examples + 1) for pattern in patterns]
        longest = max(len(prompt.tokens) for prompt in self._prompts(most))
        if longest > limit:
            raise DataError(f"a prompt of word_problems has up to {longest} tokens, more than rollout.max_prompt_tokens={limit}; raise it")
