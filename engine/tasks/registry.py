"""From a task's configuration to the task."""

from typing import TYPE_CHECKING, Any

from engine.config.task import CountdownConfig, DatasetConfig, TaskConfig, WordProblemsConfig
from engine.tasks import dataset_task
from engine.tasks.code import CODE
from engine.tasks.countdown import CountdownTask
from engine.tasks.dataset_task import DatasetTask, TaskKind
from engine.tasks.function import FUNCTION
from engine.tasks.math import MATH
from engine.tasks.multiple_choice import CHOICE
from engine.tasks.prompts import PROMPTS
from engine.tasks.task import Task
from engine.tasks.word_problems import WordProblemsTask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KINDS: dict[str, TaskKind[Any]] = {"math": MATH, "choice": CHOICE, "code": CODE, "function": FUNCTION, "prompts": PROMPTS}


def build_task(config: TaskConfig, seed: int, tokenizer: "PreTrainedTokenizerBase") -> Task:
    """The task, its data read and tokenised. DataError says what is wrong with the data."""
    if isinstance(config, CountdownConfig):
        return CountdownTask(config, seed, tokenizer)
    if isinstance(config, WordProblemsConfig):
        return WordProblemsTask(config, seed, tokenizer)
    return DatasetTask(config, KINDS[config.name], seed, tokenizer)


def check_rows(config: TaskConfig) -> None:
    """DataError says what is wrong with the task's data. Needs no tokenizer, and imports nothing heavy."""
    if isinstance(config, DatasetConfig):
        dataset_task.check(config, KINDS[config.name])
