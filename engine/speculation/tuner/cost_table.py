"""What a decode step costs: measured passes of target and drafter, added up."""

import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.speculation.strategy import Context, Strategy

SCHEMA = 3

KEYS = 0.25
"""Width that a token costs as much as of which the drafter only keeps keys and values."""
CATCH_UP = 1 + 2 * KEYS
"""Width that the first draft pass costs as much as: one token, and mere keys and values for the others that the last step added."""


@dataclass(frozen=True)
class Grid:
    """Seconds of one forward pass at ``batches`` x ``widths`` x ``lengths``: requests, tokens of each in the pass, and tokens that
    each has before it. ``seconds`` is [B, W, L]. Piecewise linear between the points; the first value below an axis, the last slope
    above it, but never less than the smallest measurement."""

    batches: Sequence[float]
    widths: Sequence[float]
    lengths: Sequence[float]
    seconds: Sequence[Sequence[Sequence[float]]]

    def __post_init__(self) -> None:
        """ValueError unless the axes rise and ``seconds`` (nested sequences or an array) has their shape and is not negative."""
        for name in ("batches", "widths", "lengths", "seconds"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), float).tolist())
        axes = (self.batches, self.widths, self.lengths)
        if any(len(axis) == 0 or list(axis) != sorted(set(axis)) or not np.isfinite(axis).all() for axis in axes):
            raise ValueError(f"the axes of a grid of costs must rise: {axes}")
        if np.shape(self.seconds) != tuple(map(len, axes)) or not (np.min(self.seconds) >= 0 and np.isfinite(self.seconds).all()):
            raise ValueError(f"a grid of costs needs {tuple(map(len, axes))} values of at least 0, got shape {np.shape(self.seconds)}")

    @cached_property
    def least(self) -> float:
        return float(np.min(self.seconds))

    def longer(self, other: "Grid") -> "Grid":
        """With the one length of ``other``, which is longer. For batches that are not measured there, what its largest one has more than at
        the last length here, by the number of requests: attention reads so much more."""
        last, known = np.asarray(self.seconds)[:, :, -1], len(other.batches)
        more = np.maximum(np.asarray(other.seconds)[:, :, 0] - last[:known], 0.0)
        shares = np.asarray(self.batches[known:]) / other.batches[-1]
        column = last + np.concatenate([more, shares[:, None] * more[-1]])
        seconds = np.concatenate([np.asarray(self.seconds), column[:, :, None]], 2)
        return Grid(self.batches, self.widths, [*self.lengths, *other.lengths], seconds.tolist())

    def __call__(self, batch: float, width: float, length: float) -> float:
        b, b_weight = _span(self.batches, batch)
        w, w_weight = _span(self.widths, width)
        n, n_weight = _span(self.lengths, length)

        def along_length(row: Sequence[float]) -> float:
            return row[n] + n_weight * (row[n + 1] - row[n]) if n_weight else row[n]

        def along_width(plane: Sequence[Sequence[float]]) -> float:
            near = along_length(plane[w])
            return near + w_weight * (along_length(plane[w + 1]) - near) if w_weight else near

        near = along_width(self.seconds[b])
        value = near + b_weight * (along_width(self.seconds[b + 1]) - near) if b_weight else near
        return max(value, self.least)


@dataclass(frozen=True)
class CostTable:
    """Costs of ``target`` and ``draft`` passes, measured apart: depth and top_k touch only the drafter, verify only the target
    (TLT section 4), so that a few points give the cost of every strategy. Measured once per model and machine."""

    target: Grid
    draft: Grid

    def longer(self, other: "CostTable") -> "CostTable":
        """With another length, see ``Grid``."""
        return CostTable(self.target.longer(other.target), self.draft.longer(other.draft))

    def seconds(self, strategy: Strategy, context: Context) -> float:
        """A decode step: draft passes, which an n-gram draft has none of, and one target pass over the drafts and a last token."""
        batch, length = context.batch, context.length
        verified = self.target(batch, strategy.verify + 1, length)
        if strategy.drafter != "eagle":
            return verified
        more = draft_levels(strategy) - 1
        levels = more * self.draft(batch, strategy.top_k, length) if more else 0.0
        return verified + self.draft(batch, CATCH_UP, length) + levels

    def catch_up(self, context: Context) -> float:
        """Seconds in which the drafter takes in what it has not seen yet, beyond what a step has it take in anyway."""
        batch, length = context.batch, context.length
        return max(0.0, self.draft(batch, 1 + KEYS * context.behind, length) - self.draft(batch, CATCH_UP, length))

    def save(self, path: Path) -> None:
        """Writes aside and then renames, under a name of its own: workers may save at the same time."""
        aside = path.with_name(f"{path.name}.{os.getpid()}.partial")
        aside.write_text(json.dumps({"schema": SCHEMA} | asdict(self)), encoding="utf-8")
        aside.replace(path)

    @classmethod
    def load(cls, path: Path) -> "CostTable | None":
        """None if there is no file, or none of this schema: then the costs have to be measured."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(Grid(**data["target"]), Grid(**data["draft"])) if data["schema"] == SCHEMA else None
        except (OSError, ValueError, TypeError, KeyError):
            return None


def draft_levels(strategy: Strategy) -> int:
    """Draft positions that can matter: a node at level n needs its n - 1 ancestors among the verified ones."""
    return min(strategy.depth, strategy.verify)


def assumed_seconds(strategy: Strategy, context: Context) -> float:
    """The guess where nothing was measured; only the ratio of strategies counts. A draft level costs a tenth of a plain step, and 64
    verified tokens cost a tenth, both by the order of published tables (facts of TLT, section 5)."""
    levels = draft_levels(strategy) if strategy.drafter == "eagle" else 0
    return 1 + context.batch / 256 + 0.1 * levels + 0.1 * context.batch * strategy.verify / 64


def assumed_catch_up(context: Context) -> float:
    """``CostTable.catch_up`` of that guess."""
    return 0.1 * context.batch * KEYS * context.behind / 64


def _span(axis: Sequence[float], value: float) -> tuple[int, float]:
    """The interval of ``axis`` for ``value`` and how far into it: 0 below the axis, above 1 beyond its end."""
    if len(axis) == 1:
        return 0, 0.0
    low = min(max(bisect_right(axis, value) - 1, 0), len(axis) - 2)
    return low, max((value - axis[low]) / (axis[low + 1] - axis[low]), 0.0)
