"""How long the responses of a step are: as recorded, or drawn from a distribution with a heavy tail for each prompt."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from engine.errors import DataError

Lengths = NDArray[np.int64]
PROMPT_SHARE = 0.5
"""Of the variance of log lengths, what the prompt decides; the rest differs from response to response."""
SPREAD = 1.2
LONGEST = 2**31
MEDIAN_SHARE = 1 / 24
"""Of the limit; both are the middle of what the published case study implies (see README.md)."""


class ResponseLengths(Protocol):
    def draw(self, step: int, positions: Lengths, group_size: int, limit: int) -> Lengths:
        """Tokens [P, G] of the responses to the prompts at ``positions`` [P], in RL step ``step``, at most ``limit``."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class LogNormal:
    """``spread`` is the standard deviation of the logarithm."""

    median: float
    spread: float = SPREAD
    seed: int = 0

    def draw(self, step: int, positions: Lengths, group_size: int, limit: int) -> Lengths:  # noqa: ARG002
        if not len(positions):
            return np.zeros((0, group_size), np.int64)
        rng = default_rng((self.seed, int(positions[0])))
        prompt = rng.standard_normal((len(positions), 1)) * PROMPT_SHARE**0.5
        own = rng.standard_normal((len(positions), group_size)) * (1 - PROMPT_SHARE) ** 0.5
        found: Lengths = np.clip(np.exp(np.log(self.median) + self.spread * (prompt + own)), 1, limit).astype(np.int64)
        return found

    def __str__(self) -> str:
        return f"assumed: log-normal, median {self.median:,.0f} tokens, spread {self.spread:g}"


@dataclass(frozen=True)
class Recorded:
    """``steps`` of a run in turn, each the lengths of its responses, group by group, of ``members`` each."""

    steps: tuple[tuple[int, ...], ...]
    source: str
    seed: int = 0
    members: int = 1

    def draw(self, step: int, positions: Lengths, group_size: int, limit: int) -> Lengths:
        """As they were where there are as many, else that many of them by chance: whole groups, if they have as many members."""
        recorded, count = np.array(self.steps[step % len(self.steps)], np.int64), len(positions) * group_size
        if len(recorded) != count:
            together = group_size if group_size == self.members and len(recorded) % group_size == 0 else 1
            recorded = default_rng((self.seed, step)).choice(recorded.reshape(-1, together), count // together)
        return np.clip(recorded, min(1, limit), limit).reshape(-1, group_size)

    def __str__(self) -> str:
        return f"as recorded in {len(self.steps)} steps of {self.source}"


def assumed(limit: int, seed: int) -> LogNormal:
    """Where nothing is known but the longest that a response may be."""
    return LogNormal(max(1.0, limit * MEDIAN_SHARE), SPREAD, seed)


def from_file(path: Path, seed: int) -> Recorded:
    """A JSON list of lengths, or of such lists by step; or a length a line. DataError if there is none in it."""
    try:
        text = path.read_text(encoding="utf-8")
        found: list[Any] = json.loads(text) if text.lstrip().startswith("[") else [int(line) for line in text.split()]
        steps: list[Any] = found if found and isinstance(found[0], list) else [found]
        lengths = tuple(tuple(int(length) for length in step) for step in steps if step)
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"lengths: {path} cannot be read: {error}; give a JSON list of lengths, or one a line") from None
    if not lengths or min(map(min, lengths)) < 1 or max(map(max, lengths)) >= LONGEST:
        raise DataError(f"lengths: {path} has no lengths, or one below 1 or from {LONGEST:,} on; give the tokens of each response")
    return Recorded(lengths, path.name, seed)
