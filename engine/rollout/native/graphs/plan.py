"""Which CUDA graphs an engine needs (TLT section 4), as arithmetic of sets.

Batch sizes are bucketed, and a strategy gets graphs only for the batch sizes at which the tuner can pick it. Target and drafter have
graphs of their own, so their shapes add up instead of multiplying: trees of one depth and top_k that differ in what is verified draft by
the same. Graphs that are equal for several strategies are one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.config import BegConfig, FixedConfig, SpeculationConfig
from engine.speculation.strategy import OFF, Strategy

Part = Literal["target", "draft"]


@dataclass(frozen=True, order=True)
class Capture:
    """A graph of ``levels`` forward passes: ``batch`` requests, padded to a bucket, with ``tokens`` tokens each.

    ``target`` verifies verify + 1 tokens (plain decoding: 1). ``draft`` drafts a chain, or all that a tree is chosen from: its levels are
    top_k nodes wide, but for the first, which follows from the last that the target has seen.
    """

    part: Part
    batch: int
    tokens: int
    levels: int = 1

    @classmethod
    def of_draft(cls, strategy: Strategy, batch: int) -> "Capture":
        """That of a learned drafter's drafts for ``batch`` requests."""
        return cls("draft", batch, strategy.top_k, strategy.verify if strategy.top_k == 1 else strategy.depth)

    @property
    def rows(self) -> int:
        return self.batch * self.tokens


@dataclass(frozen=True)
class GraphPlan:
    """``target`` and ``draft`` are the graphs of either model."""

    target: frozenset[Capture]
    draft: frozenset[Capture]
    max_batch: int

    @classmethod
    def of(cls, ranges: Mapping[Strategy, range], max_batch: int) -> "GraphPlan":
        """For the batch sizes at which each strategy can be picked (see ``batch_ranges``); those above ``max_batch`` get no graph."""
        found = {capture for strategy, batches in ranges.items() for capture in captures_of(strategy, batches, max_batch)}
        target = frozenset(capture for capture in found if capture.part == "target")
        return cls(target, frozenset(found - target), max_batch)

    @classmethod
    def of_engine(cls, speculation: SpeculationConfig | None, max_batch: int) -> "GraphPlan":
        """All that an engine decodes with; None: plainly."""
        ranges = batch_ranges(speculation, max_batch) if speculation else {OFF: range(1, max_batch + 1)}
        return cls.of(ranges, max_batch)

    @property
    def captures(self) -> int:
        return len(self.target) + len(self.draft)

    def __contains__(self, key: object) -> bool:
        return key in self.target or key in self.draft

    def __iter__(self) -> Iterator[Capture]:
        return iter(self.target | self.draft)


def bucket(batch: int, max_batch: int) -> int:
    """The batch size of the graph that runs ``batch`` requests: the next power of two, at most ``max_batch``."""
    return min(1 << (batch - 1).bit_length(), max_batch)


def captures_of(strategy: Strategy, batches: range, max_batch: int) -> set[Capture]:
    """The graphs of one strategy for these batch sizes, as far as they do not exceed ``max_batch``."""
    buckets = set(_buckets(batches, max_batch))
    drafts = {Capture.of_draft(strategy, size) for size in buckets} if strategy.drafter == "eagle" else set()
    return {Capture("target", size, strategy.verify + 1) for size in buckets} | drafts


def _buckets(batches: range, max_batch: int) -> Iterator[int]:
    """In as many steps as there are: the planner may be asked for any batch."""
    batch = max(1, batches.start)
    while batch < batches.stop and batch <= max_batch:
        yield (size := bucket(batch, max_batch))
        batch = size + 1


def batch_ranges(speculation: SpeculationConfig, max_batch: int) -> dict[Strategy, range]:
    """The batch sizes, at most ``max_batch``, at which the configured tuner can pick each strategy; OFF can be picked at all."""
    largest = min(max_batch, int(speculation.threshold * (1 + speculation.hysteresis)))
    strategies = [Strategy.of(strategy) for strategy in speculation.strategies]
    if isinstance(speculation.tuner, BegConfig):
        groups = sorted({strategy.verify for strategy in strategies}, reverse=True)
        starts = speculation.tuner.thresholds or [2**index for index in range(len(groups))]
        stops = [*starts[1:], largest + 1]
        spans = {verify: range(start, min(stop, largest + 1)) for verify, start, stop in zip(groups, starts, stops, strict=True)}
        picked = {strategy: spans[strategy.verify] for strategy in strategies}
    elif isinstance(speculation.tuner, FixedConfig):
        picked = {strategies[0]: range(1, largest + 1)}
    else:
        picked = {strategy: range(1, largest + 1) for strategy in strategies}
    return {OFF: range(1, max_batch + 1)} | picked
