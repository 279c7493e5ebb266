"""The parts of ``make gpu``, in order of worth, and how large each of them is."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

Tell = Callable[[Mapping[str, Any]], None]
"""Keeps a result so far: what is cut off leaves what it has told last."""

MINUTES = {
    "marked_tests": 2.0,
    "page_attention": 1.0,
    "decoding": 6.0,
    "sglang_decoding": 5.0,
    "learner_step": 5.0,
    "graph_memory": 1.5,
    "spot_session": 2.0,
    "weight_sync": 1.25,
    "decode_profile": 1.25,
}
"""Each part's own share of 25 minutes, which is what nobody has measured. Its module, here, has the same name, and a function ``run``."""


@dataclass(frozen=True)
class Scale:
    """``models`` are made of ``tiny``, times ``width`` as wide and with so many layers. ``shape``, of the planner, is that of a random
    model with a real vocabulary. Seconds are those of a spot session."""

    models: Mapping[str, tuple[int, int]]
    shape: str
    batches: tuple[int, ...]
    tokens: int
    tail_requests: int
    tail_tokens: int
    prompts: int
    seconds: float
    graph_batch: int
    emulated: bool = False


FULL = Scale(
    models={"0.5B": (8, 28), "1.5B": (16, 22), "7B": (32, 26)},
    shape="7B",
    batches=(1, 8, 32, 128),
    tokens=128,
    tail_requests=128,
    tail_tokens=1024,
    prompts=8,
    seconds=30.0,
    graph_batch=64,
)
EMULATED = Scale(
    models={"tiny": (1, 16)},
    shape="tiny",
    batches=(1, 2),
    tokens=8,
    tail_requests=16,
    tail_tokens=16,
    prompts=2,
    seconds=0.1,
    graph_batch=1,
    emulated=True,
)


@dataclass(frozen=True)
class Part:
    """What a part's ``run`` is given. ``scratch``: a folder for models, which all parts share; ``ending``: when ``time.monotonic`` says so
    it is cut off."""

    scale: Scale
    scratch: Path
    tell: Tell
    ending: float = inf
    result: dict[str, Any] = field(default_factory=dict)

    def found(self, **figures: Any) -> None:
        """Adds ``figures`` to the result, and keeps it."""
        self.result.update(figures)
        self.tell(self.result)

    def has(self, seconds: float) -> bool:
        """Whether there is as much time left."""
        return time.monotonic() + seconds < self.ending
