"""The contract between a task and the training loop."""

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Prompt:
    """``text`` as people read it, ``tokens`` as the model gets it, ``data`` what the task needs to score a response."""

    text: str
    tokens: tuple[int, ...]
    data: Any


class Task(Protocol):
    """Prompts and their rewards. It holds no state: the step is the cursor, so a resumed run repeats and skips nothing.

    ``waits``: a reward mostly waits for a process beside this one, so that several at once take no longer.
    """

    waits: bool

    def prompts(self, step: int, count: int) -> list[Prompt]:
        """The ``count`` prompts of ``step``, the same in every run of the same seed."""
        ...

    def validation(self, count: int) -> list[Prompt]:
        """The first ``count`` prompts that ``prompts`` never gives, or all there are; the same in every run."""
        ...

    def reward(self, prompt: Prompt, response: str) -> float:
        """Score of a response without its end token. Thread-safe; never raises, whatever the response."""
        ...

    def check_lengths(self, limit: int) -> None:
        """DataError if any prompt of the task has more than ``limit`` tokens."""
        ...
