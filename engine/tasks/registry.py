"""From a task's configuration to the task."""

from typing import TYPE_CHECKING, Any

from engine.tasks import questions
from engine.tasks.base import Task
from engine.tasks.choice import CHOICE
from engine.tasks.code import CODE
from engine.tasks.config import CountdownConfig, TaskConfig
from engine.tasks.countdown import CountdownTask
from engine.tasks.function import FUNCTION
from engine.tasks.math import MATH
from engine.tasks.questions import Kind, QuestionTask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KINDS: dict[str, Kind[Any]] = {"math": MATH, "choice": CHOICE, "code": CODE, "function": FUNCTION}


def build_task(config: TaskConfig, seed: int, tokenizer: "PreTrainedTokenizerBase") -> Task:
    """The task, its data read and tokenised. DataError says what is wrong with the data."""
    if isinstance(config, CountdownConfig):
        return CountdownTask(config, seed, tokenizer)
    return QuestionTask(config, KINDS[config.name], seed, tokenizer)


def check_rows(config: TaskConfig) -> None:
    """DataError says what is wrong with the task's data. Needs no tokenizer, and imports nothing heavy."""
    if not isinstance(config, CountdownConfig):
        questions.check(config, KINDS[config.name])
