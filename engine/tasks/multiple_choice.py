"""Multiple choice: right if the last letter that the response settles on is the right one."""

import re
from string import ascii_uppercase

from engine.config.task import ChoiceConfig
from engine.errors import DataError
from engine.tasks.dataset_task import Question, Score, TaskKind
from engine.tasks.example import Example

_BOXED = re.compile(r"\\boxed\{\s*(?:\\(?:text|mathrm|mathbf)\{\s*)?\(?([A-Za-z])\)?\s*[.:]?\s*\}")
_SAID = re.compile(r"\b(?:answer|choice|option)\b(?:\s+is)?\s*:?\s*\**\(?([A-Z])\b", re.IGNORECASE)


def chosen(response: str) -> str | None:
    """The letter in the last ``\\boxed{}``; without one, that of the last "answer is B", "Answer: B" or the like; or a lone letter."""
    found = _BOXED.findall(response) or _SAID.findall(response)
    if found:
        return str(found[-1]).upper()
    alone = response.strip().strip("().*").upper()
    return alone if len(alone) == 1 and alone in ascii_uppercase else None


def _read(config: ChoiceConfig, row: Example) -> Question:
    choices = row.texts(config.choices, 2, len(ascii_uppercase))
    lines = [f"{letter}. {choice}" for letter, choice in zip(ascii_uppercase, choices, strict=False)]
    return Question("\n".join([row.text(config.question), *lines]), _right(row, config, choices))


def _right(row: Example, config: ChoiceConfig, choices: list[str]) -> str:
    """The letter of the right choice. A text among the choices counts before a letter, and a letter before a place."""
    answer = row.text_or_number(config.answer).strip()
    letters = ascii_uppercase[: len(choices)]
    if choices.count(answer) == 1 and not isinstance(row.columns[config.answer], int):
        return letters[choices.index(answer)]
    if answer.upper() in letters:
        return answer.upper()
    if answer.isdecimal() and int(answer) < len(choices):
        return letters[int(answer)]
    raise DataError(f"{row.place}: column {config.answer!r} is {answer!r}: no letter, place or text of its {len(choices)} choices")


def _score(_: ChoiceConfig) -> Score:
    return lambda letter, response: float(chosen(response) == letter)


CHOICE: TaskKind[ChoiceConfig] = TaskKind(_read, _score)
