"""Maths questions with a known answer; a response is right if math-verify finds the answer equal."""

from engine.config.task import MathConfig
from engine.tasks.dataset_task import Question, Score, TaskKind
from engine.tasks.example import Example
from engine.tasks.math_checker import Checker


def _read(config: MathConfig, row: Example) -> Question:
    return Question(row.text(config.question), expected(row.text_or_number(config.answer)))


def _score(_: MathConfig) -> Score:
    checker = Checker()
    return lambda answer, response: float(checker.equal(answer, response))


def expected(answer: str) -> str:
    """The part of a GSM8K answer after ``####``, or the whole answer, marked as mathematics for math-verify."""
    answer = answer.rpartition("####")[2].strip()
    return answer if "\\boxed" in answer or "$" in answer else f"\\boxed{{{answer}}}"


MATH: TaskKind[MathConfig] = TaskKind(_read, _score)
