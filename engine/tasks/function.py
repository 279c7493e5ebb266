"""Rows that a function of the user's scores."""

from collections.abc import Callable
from math import isfinite
from typing import Any

from engine import own_functions
from engine.errors import DataError
from engine.tasks.config import FunctionConfig
from engine.tasks.dataset import Row
from engine.tasks.questions import Kind, Question, Score


def _read(config: FunctionConfig, row: Row) -> Question:
    return Question(row.text(config.question), dict(row.columns))


def _score(config: FunctionConfig) -> Score:
    function: Callable[..., Any] = own_functions.load("task.function", config.function)

    def score(row: dict[str, Any], response: str) -> float:
        reward = float(function(row, response))
        if not isfinite(reward):
            raise DataError(f"task.function: {config.function} gave {reward} for the response {response[:80]!r}; it must be a number")
        return reward

    return score


FUNCTION: Kind[FunctionConfig] = Kind(_read, _score)
