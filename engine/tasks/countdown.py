"""Countdown: reach a target from three or four numbers, each used exactly once, with + - *.

A response is a search trace. Every line is one attempt, a chain of equations that ends in ``x`` (dead end, the search goes
on) or ``!`` (the verdict: this chain is the solution). A lone ``~`` announces a quick look, of one attempt, and a lone ``?`` gives up::

    3 7 25=29:          prompt
    25+7=32,32-3=29!    response
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from engine.config.task import CountdownConfig
from engine.errors import DataError
from engine.tasks.task import Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OPERATORS = "+-*"
LARGEST_INTERMEDIATE = 200
_EQUATION = re.compile(r"(\d{1,9})([+\-*])(\d{1,9})=(\d{1,9})")


@dataclass(frozen=True)
class Equation:
    """One step of a chain: ``left operator right = result``."""

    left: int
    operator: str
    right: int

    @property
    def result(self) -> int:
        if self.operator == "+":
            return self.left + self.right
        return self.left - self.right if self.operator == "-" else self.left * self.right

    def __str__(self) -> str:
        return f"{self.left}{self.operator}{self.right}={self.result}"


@dataclass(frozen=True)
class Problem:
    """The numbers to combine and the target to reach."""

    numbers: tuple[int, ...]
    target: int

    @property
    def prompt(self) -> str:
        return f"{' '.join(map(str, self.numbers))}={self.target}:"


LONGEST = Problem((20, 20, 20, 20), 99)


def moves(numbers: Sequence[int]) -> Iterator[tuple[Equation, tuple[int, ...]]]:
    """Every legal equation on two of ``numbers``, with the numbers that remain after it (the result comes last)."""
    seen: set[Equation] = set()
    for i in range(len(numbers)):
        for j in range(i + 1, len(numbers)):
            large, small = max(numbers[i], numbers[j]), min(numbers[i], numbers[j])
            rest = tuple(numbers[:i]) + tuple(numbers[i + 1 : j]) + tuple(numbers[j + 1 :])
            for operator in OPERATORS:
                equation = Equation(large, operator, small)
                if 0 < equation.result <= LARGEST_INTERMEDIATE and equation not in seen:
                    seen.add(equation)
                    yield equation, (*rest, equation.result)


def generate(rng: Random, four_numbers: float) -> Problem:
    """A solvable problem; ``four_numbers`` is the share of problems with four numbers instead of three (these are the hard ones)."""
    while True:
        count = 4 if rng.random() < four_numbers else 3
        numbers = tuple(rng.randint(1, 20) for _ in range(count))
        rest = numbers
        while len(rest) > 1:
            options = list(moves(rest))
            if not options:
                break
            rest = rng.choice(options)[1]
        if len(rest) == 1 and 10 <= rest[0] <= 99 and rest[0] not in numbers:
            return Problem(numbers, rest[0])


def reward(problem: Problem, response: str) -> float:
    """1.0 if the last line is a verdict whose every equation is right, uses each number once and ends in the target, else 0.0."""
    line = response.rstrip("\n").rsplit("\n", 1)[-1]
    if not line.endswith("!"):
        return 0.0
    available = list(problem.numbers)
    for text in line[:-1].split(","):
        match = _EQUATION.fullmatch(text)
        if match is None:
            return 0.0
        left, operator, right, result = int(match[1]), match[2], int(match[3]), int(match[4])
        if Equation(left, operator, right).result != result:
            return 0.0
        for used in (left, right):
            if used not in available:
                return 0.0
            available.remove(used)
        available.append(result)
    return float(available == [problem.target])


class CountdownTask:
    """Endless generated problems. ``Prompt.data`` is the Problem."""

    waits = False

    def __init__(self, config: CountdownConfig, seed: int, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._config, self._seed, self._tokenizer = config, seed, tokenizer

    def prompts(self, step: int, count: int) -> list[Prompt]:
        """Every step has the same share of hard problems, as nearly as ``count`` allows, so that steps can be compared."""
        return self._drawn(f"{self._seed}:{step}", count)

    def validation(self, count: int) -> list[Prompt]:
        """Now and then one of them may be among the training's, as problems are drawn anew at each step."""
        return self._drawn("validation", count)

    def _drawn(self, seed: str, count: int) -> list[Prompt]:
        rng = Random(seed)
        hard = int(count * self._config.four_numbers + rng.random())
        problems = [generate(rng, 1.0 if index < hard else 0.0) for index in range(count)]
        rng.shuffle(problems)
        return [Prompt(problem.prompt, self._tokens(problem), problem) for problem in problems]

    def reward(self, prompt: Prompt, response: str) -> float:
        return reward(prompt.data, response)

    def check_lengths(self, limit: int) -> None:
        longest = len(self._tokens(LONGEST))
        if longest > limit:
            raise DataError(f"a countdown prompt has up to {longest} tokens, more than rollout.max_prompt_tokens={limit}; raise it")

    def _tokens(self, problem: Problem) -> tuple[int, ...]:
        return tuple(self._tokenizer(problem.prompt).input_ids)
