"""What a decode step may do: plain decoding, or a draft of a given shape; and what the choice rests on."""

from collections.abc import Set
from dataclasses import dataclass
from math import inf
from typing import Protocol

from engine.config import DrafterName, StrategyConfig

ALL_DRAFTERS: Set[DrafterName] = frozenset(("none", "eagle", "ngram"))


@dataclass(frozen=True)
class Strategy:
    """(draft_depth, top_k, tokens_to_verify) of TLT section 4, and who drafts.

    The drafter proposes ``top_k`` branches a level, ``depth`` levels deep; the ``verify`` nodes of highest path probability go to
    the target. A chain (top_k 1) has one node a level. ``ngram`` drafts are chains and may be shorter than ``verify``.
    """

    drafter: DrafterName
    depth: int
    top_k: int
    verify: int

    @classmethod
    def of(cls, config: StrategyConfig) -> "Strategy":
        return cls(config.drafter, config.depth, config.top_k, config.verify)

    @classmethod
    def named(cls, name: str) -> "Strategy":
        """From what ``str`` says of it."""
        if name == "off":
            return OFF
        drafter, *shape = name.split()
        depth, top_k, verify = (int(each[1:]) for each in shape)
        return cls("ngram" if drafter == "ngram" else "eagle", depth, top_k, verify)

    def __str__(self) -> str:
        return "off" if self.drafter == "none" else f"{self.drafter} d{self.depth} k{self.top_k} v{self.verify}"


OFF = Strategy("none", 0, 0, 0)


@dataclass(frozen=True)
class Context:
    """A decode step to come: ``batch`` running requests of ``length`` known tokens on average, the versions of the weights, and the
    drafters that can be asked now (always with "none"). ``horizon``: tokens that each request is predicted to need still; ``behind``:
    tokens that the learned drafter reads of each before it drafts, see ``engine.speculation.catch_up``."""

    batch: int
    length: float = 0.0
    target_version: int = 0
    drafter_version: int = 0
    drafters: Set[DrafterName] = ALL_DRAFTERS
    horizon: float = inf
    behind: int = 0

    @property
    def versions(self) -> tuple[int, int]:
        return self.target_version, self.drafter_version


class RunningRequest(Protocol):
    """A running request: its id and group, the tokens known (prompt included), generated, and seen by the learned drafter."""

    @property
    def id(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def generated(self) -> int: ...
    @property
    def drafted(self) -> int: ...
