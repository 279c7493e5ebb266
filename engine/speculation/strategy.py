"""What a decode step may do: plain decoding, or a draft of a given shape."""

from dataclasses import dataclass
from typing import Literal

from engine.config import StrategyConfig


@dataclass(frozen=True)
class Strategy:
    """(draft_depth, top_k, tokens_to_verify) of TLT section 4, and who drafts.

    Only the ``verify`` best drafted tokens reach the target. In a chain (top_k 1) these are the first, so no more are drafted.
    """

    drafter: Literal["none", "eagle"]
    depth: int
    top_k: int
    verify: int

    @classmethod
    def eagle(cls, config: StrategyConfig) -> "Strategy":
        return cls("eagle", config.depth, config.top_k, config.verify)

    def __str__(self) -> str:
        return "off" if self.drafter == "none" else f"{self.drafter} d{self.depth} k{self.top_k} v{self.verify}"


OFF = Strategy("none", 0, 0, 0)
