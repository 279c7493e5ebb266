"""How the names of strategies read in a chart: what drafts, how much, a colour for each kind and a pattern for each of its members."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from dashboard.charts.theme import BLUE, GREEN, GREY, ORANGE, PURPLE, SHAPES, label

Kind = Literal["off", "tree", "chain", "n-gram", "other"]
COLORS: dict[Kind, str] = {"off": GREY, "tree": BLUE, "chain": GREEN, "n-gram": ORANGE, "other": PURPLE}
_NAME = re.compile(r"(eagle|ngram) d(\d+) k(\d+) v(\d+)")


@dataclass(frozen=True)
class _Shape:
    kind: Kind
    depth: int = 0
    top_k: int = 0
    verify: int = 0


def strategy_label(name: str) -> str:
    """``strategy_name``, as a chart shows it."""
    return label(strategy_name(name))


def strategy_name(name: str) -> str:
    """``eagle d6 k3 v11`` is "tree 6x3, verify 11", ``eagle d4 k1 v4`` "chain 4", ``ngram d8 k1 v6`` "n-gram 8, verify 6", ``off``
    "plain"."""
    shape = _shape(name)
    if not shape.depth:
        return "plain" if shape.kind == "off" else name
    size = f"{shape.kind} {shape.depth}" + (f"x{shape.top_k}" if shape.kind == "tree" else "")
    return size if shape.kind != "tree" and shape.verify == shape.depth else f"{size}, verify {shape.verify}"


def strategy_kind(name: str) -> Kind:
    return _shape(name).kind


def strategy_order(name: str) -> tuple[int, int, int, int, str]:
    """Sorts plain decoding first, then by kind, the most verified tokens first."""
    shape = _shape(name)
    return list(COLORS).index(shape.kind), -shape.verify, -shape.depth, -shape.top_k, name


def strategy_fills(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """A colour for each kind, plain for the strategy that verifies the most tokens, and in patterns for those that verify fewer."""
    found: dict[str, tuple[str, str]] = {}
    for kind, group in groupby(sorted(names, key=strategy_order), lambda name: _shape(name).kind):
        found |= {name: (COLORS[kind], SHAPES[place % len(SHAPES)]) for place, name in enumerate(group)}
    return found


def _shape(name: str) -> _Shape:
    if name == "off":
        return _Shape("off")
    match = _NAME.fullmatch(name)
    if match is None:
        return _Shape("other")
    depth, top_k, verify = map(int, match.groups()[1:])
    return _Shape("n-gram" if match[1] == "ngram" else "tree" if top_k > 1 else "chain", depth, top_k, verify)
