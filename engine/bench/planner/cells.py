"""Published figures beside predicted ones, and which of them calibrate."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

PUBLISHED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Cell:
    """``calibrates``: the model was fitted to it, so that its error says nothing."""

    table: str
    name: str
    measured: float
    predicted: float
    calibrates: bool

    @property
    def error(self) -> float:
        return abs(self.predicted / self.measured - 1)

    @property
    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"predicted": round(self.predicted, 4)}


def errors(cells: Sequence[Cell]) -> dict[str, Any]:
    """Of the cells that are held out, by table."""
    found: dict[str, Any] = {}
    for table in dict.fromkeys(cell.table for cell in cells):
        held_out = [cell.error for cell in cells if cell.table == table and not cell.calibrates]
        found[table] = {"held_out": len(held_out), "mean_abs_error": round(fmean(held_out), 4), "worst": round(max(held_out), 4)}
    return found
