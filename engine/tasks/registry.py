"""From a task's configuration to the task."""

from typing import TYPE_CHECKING

from engine.config import CountdownConfig, TaskConfig
from engine.tasks.base import Task
from engine.tasks.countdown import CountdownTask
from engine.tasks.math import MathTask

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def build_task(config: TaskConfig, seed: int, tokenizer: "PreTrainedTokenizerBase") -> Task:
    """The task, its data read and tokenised. DataError says what is wrong with the data."""
    if isinstance(config, CountdownConfig):
        return CountdownTask(config, seed, tokenizer)
    return MathTask(config, seed, tokenizer)
