"""What the learner is given to learn from."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from engine.rollout.pickled_arrays import PickledArrays


@dataclass(frozen=True)
class TrainingRow(PickledArrays):
    """One response. ``tokens`` is prompt then response; ``rollout_logprobs`` has one entry per response token.

    A ``masked`` one is no part of the loss.
    """

    _logprobs: ClassVar[str] = "rollout_logprobs"
    tokens: tuple[int, ...]
    prompt_length: int
    advantage: float
    rollout_logprobs: tuple[float, ...]
    masked: bool = False

    def __post_init__(self) -> None:
        if self.prompt_length < 1:
            raise ValueError("a row needs at least one prompt token")
        if self.prompt_length + len(self.rollout_logprobs) != len(self.tokens):
            raise ValueError(f"{len(self.tokens) - self.prompt_length} response tokens, {len(self.rollout_logprobs)} log-probs")

    @property
    def response_length(self) -> int:
        return len(self.rollout_logprobs)

    def teaches(self, kl: bool) -> bool:
        """Whether the loss, with a KL term or without, has a gradient here."""
        return not self.masked and (kl or self.advantage != 0)


def siblings(rows: Sequence[TrainingRow]) -> list[list[int]]:
    """Indices of ``rows`` by prompt."""
    return alike([row.tokens[: row.prompt_length] for row in rows])


def alike(keys: Sequence[Hashable]) -> list[list[int]]:
    """Indices of equal ``keys``, in the order in which each comes first."""
    found: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        found.setdefault(key, []).append(index)
    return list(found.values())


@dataclass(frozen=True)
class Inferred:
    """What the inference stage found out about the R response tokens of a row, each [R], on the CPU; None where nobody asks."""

    logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None
