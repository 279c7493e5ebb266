"""Prompts that nothing is rewarded for."""

from typing import Any

from engine.config.task import PromptsConfig
from engine.tasks.dataset_task import Question, Score, TaskKind
from engine.tasks.example import Example
from engine.tasks.response_rows import PROMPT


def _read(config: PromptsConfig, row: Example) -> Question:
    """Where no other column is named it may have any name that prompts beside responses may have."""
    names = PROMPT if config.question in PROMPT else ()
    return Question(row.text(config.question, *names), None)


def _score(config: PromptsConfig) -> Score:  # noqa: ARG001
    def score(data: Any, response: str) -> float:  # noqa: ARG001
        return 0.0

    return score


PROMPTS: TaskKind[PromptsConfig] = TaskKind(_read, _score)
