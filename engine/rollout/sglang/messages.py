"""What engine and host tell each other."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch


@dataclass(frozen=True)
class TensorSlice:
    """A tensor in a flat bucket of bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int
    end: int


@dataclass(frozen=True)
class Bucket:
    tensors: tuple[TensorSlice, ...]

    @property
    def bytes(self) -> int:
        return self.tensors[-1].end


@dataclass(frozen=True)
class Begin:
    """Generate a response; ``sampling`` by SGLang's names."""

    key: str
    prompt: list[int]
    sampling: dict[str, Any]


@dataclass(frozen=True)
class Stop:
    """End a response as it is."""

    key: str


@dataclass(frozen=True)
class Pause:
    """Stand still, or go on."""

    still: bool


@dataclass(frozen=True)
class Ask:
    """Call a ``do_`` method of the host."""

    number: int
    method: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Ready:
    version: str
    processes: list[int]


@dataclass(frozen=True)
class Failed:
    stage: Literal["import", "start"]
    message: str


@dataclass(frozen=True)
class Grown:
    """New tokens of a response, with their log-probs."""

    key: str
    tokens: list[int]
    logprobs: list[float]


@dataclass(frozen=True)
class Ended:
    """The response is complete: ``stop``, ``length``, or ``abort`` and why."""

    key: str
    reason: str


@dataclass(frozen=True)
class Result:
    number: int
    value: Any = None
    error: str | None = None
    trace: str = field(default="", repr=False)
