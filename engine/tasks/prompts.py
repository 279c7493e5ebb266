"""Prompts that nothing is rewarded for."""

from typing import Any

from engine.config.task import PromptsConfig
from engine.tasks.dataset_task import Question, Score, TaskKind
from engine.tasks.example import Example


def _read(config: PromptsConfig, row: Example) -> Question:
    return Question(row.text(config.question), None)


def _score(config: PromptsConfig) -> Score:  # noqa: ARG001
    def score(data: Any, response: str) -> float:  # noqa: ARG001
        return 0.0

    return score


PROMPTS: TaskKind[PromptsConfig] = TaskKind(_read, _score)
