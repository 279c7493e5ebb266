"""Rows that a function of the user's scores."""

from collections.abc import Callable
from math import isfinite
from typing import Any

from engine.config import import_path
from engine.config.task import FunctionConfig
from engine.errors import DataError
from engine.tasks.dataset_task import Question, Score, TaskKind
from engine.tasks.example import Example


def _read(config: FunctionConfig, row: Example) -> Question:
    return Question(row.text(config.question), dict(row.columns))


def _score(config: FunctionConfig) -> Score:
    function: Callable[..., Any] = import_path.load_function("task.function", config.function)

    def score(row: dict[str, Any], response: str) -> float:
        try:
            reward = float(function(row, response))
        except Exception as error:  # whatever it raises is its author's to mend
            told = f"task.function: {config.function} raised {error!r} for the response {response[:80]!r}"
            raise DataError(f"{told}; it must give a number for whatever a model writes") from error
        if not isfinite(reward):
            raise DataError(f"task.function: {config.function} gave {reward} for the response {response[:80]!r}; it must be a number")
        return reward

    return score


FUNCTION: TaskKind[FunctionConfig] = TaskKind(_read, _score)
