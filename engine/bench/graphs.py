"""``bench graphs``: how many CUDA graphs a set of strategies needs, and how much memory, with TLT's pool and without it."""

from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig

from engine.bench.testbed import Bed
from engine.config import BegConfig, SpeculationConfig, StrategyConfig
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.drafting import Drafting
from engine.rollout.native.forward_passes import ForwardPasses
from engine.rollout.native.graphs.plan import Capture, GraphPlan, batch_ranges, captures_of
from engine.rollout.native.graphs.pool import CudaRecorder, Recorder
from engine.rollout.native.graphs.step_memory import Widths, graph_memory
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.placement import Placement
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.strategy import OFF, Strategy

MAX_BATCH, POSITIONS = 64, 256
TLT = SpeculationConfig(
    threshold=MAX_BATCH,
    strategies=tuple(StrategyConfig(depth=8, top_k=4, verify=verify) for verify in (48, 32, 16, 8)),
    tuner=BegConfig(thresholds=(1, 2, 5, 21)),
)


def run(quick: bool, model: str) -> dict[str, Any]:  # noqa: ARG001 - nothing takes long
    """For TLT's published strategies and, under ``default``, for this project's. ``measured`` is false if the bytes are those that an
    engine reckons with.

    ``naive``: every strategy has its own graphs for all batch sizes, in the same pool. ``single``: the mean over the strategies of
    what one would need if it were the only one, at all batch sizes; the strategies' own figures stand below. Plain decoding
    is in all of them.
    """
    bed = Bed(model)
    ranges = {name: batch_ranges(config, MAX_BATCH) for name, config in (("tlt", TLT), ("default", SpeculationConfig()))}
    return {
        "facts": bed.facts(),
        "max_batch": MAX_BATCH,
        "measured": bed.device.type == "cuda",
        **_compare(bed, ranges["tlt"]),
        "default": _compare(bed, ranges["default"]),
    }


def _compare(bed: Bed, ranges: Mapping[Strategy, range]) -> dict[str, Any]:
    plan = GraphPlan.of(ranges, MAX_BATCH)
    naive = naive_captures(ranges, MAX_BATCH)
    strategies = {str(strategy): _strategy(bed, strategy, batches) for strategy, batches in ranges.items()}
    singles = [facts["bytes_single"] for name, facts in strategies.items() if name != str(OFF)]
    pool = _bytes(bed, plan)
    return {
        "captures": plan.captures,
        "captures_naive": len(naive),
        "bytes": pool,
        "bytes_single": round(mean(singles)),
        "bytes_naive": _bytes(bed, naive),
        "bytes_ratio": round(pool / mean(singles), 3),
        "bytes_ratio_cheapest": round(pool / min(singles), 3),
        "strategies": strategies,
    }


def naive_captures(strategies: Iterable[Strategy], max_batch: int) -> list[Capture]:
    """What a set of graphs for each strategy has: all its passes at all batch sizes, equal ones as often as strategies have them."""
    everywhere = range(1, max_batch + 1)
    return [capture for strategy in strategies for capture in sorted(captures_of(strategy, everywhere, max_batch))]


def _strategy(bed: Bed, strategy: Strategy, batches: range) -> dict[str, int]:
    alone = naive_captures({OFF, strategy}, MAX_BATCH)
    return {
        "captures": len(captures_of(strategy, batches, MAX_BATCH)),
        "captures_single": len(alone),
        "bytes_single": _bytes(bed, alone),
    }


def _bytes(bed: Bed, captures: Iterable[Capture]) -> int:
    """Of a pool with these graphs, the largest first: measured on a GPU; on a CPU as a cache leaves free for them."""
    config: Any = bed.model.config
    if bed.device.type == "cuda":
        return measure(config, torch.empty(0, device=bed.device, dtype=bed.dtype), captures, CudaRecorder(bed.device))
    return graph_memory(captures, Widths(config.vocab_size, config.hidden_size, 3 * config.intermediate_size, bed.model.dtype.itemsize))


@torch.inference_mode()
def measure(config: PretrainedConfig, like: Tensor, captures: Iterable[Capture], recorder: Recorder) -> int:
    """Records passes of the engine, on empty weights like ``like``; their bytes. Equal captures count as often as they come."""
    largest_first = sorted(captures, key=lambda capture: -capture.rows)
    plan = GraphPlan(frozenset(largest_first), frozenset(), MAX_BATCH)
    runner = Runner(config, like, drafting=True, plan=plan)
    runner.reserve(MAX_BATCH, POSITIONS)
    recorded = []
    for capture in largest_first:
        passes = ForwardPasses(runner.target, runner.drafter, runner.cache, plan, recorder)
        _run(passes, runner.cache, capture, TokenSampler(Sampling(), config.vocab_size, like.device))
        recorded.append(passes.pool)
    return sum(pool.bytes - recorder.bytes for pool in recorded) + recorder.bytes


def _run(passes: ForwardPasses, cache: KVCache, capture: Capture, sampler: TokenSampler) -> None:
    if capture.part == "target":
        placed = Placement(cache.positions[: capture.tokens].expand(capture.batch, -1), POSITIONS)
        passes.verify(cache.tokens[: capture.rows], placed)
        return
    responses = [Response(Request(number, number, (0, 0))) for number in range(capture.batch)]
    newest = cache.positions[1:2].expand(capture.batch, 1)
    noise = sampler.noise(newest[:, 0], newest + 1 + cache.positions[: capture.levels + 1])
    shape = Strategy("eagle", capture.levels, capture.tokens, capture.levels)
    Drafting(passes, cache, responses, newest).drafts(shape, sampler, noise)
