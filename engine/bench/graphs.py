"""``bench graphs``: how many CUDA graphs a set of strategies needs, and how much memory, with TLT's pool and without it."""

from collections.abc import Iterable, Mapping
from functools import partial
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from engine.bench.bed import Bed
from engine.config import BegConfig, SpeculationConfig, StrategyConfig
from engine.drafter.model import Drafter
from engine.rollout.native.graphs.plan import Capture, GraphPlan, MemoryModel, batch_ranges, captures_of, naive_captures
from engine.rollout.native.graphs.pool import GraphPool, Recorder
from engine.speculation.strategy import OFF, Strategy

MAX_BATCH = 64
TLT = SpeculationConfig(
    threshold=MAX_BATCH,
    strategies=tuple(StrategyConfig(depth=8, top_k=4, verify=verify) for verify in (48, 32, 16, 8)),
    tuner=BegConfig(thresholds=(1, 2, 5, 21)),
)


def run(quick: bool, model: str) -> dict[str, Any]:  # noqa: ARG001 - nothing takes long
    """For TLT's published strategies and, under ``default``, for this project's. ``measured`` is false if the bytes are a model's.

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


def _strategy(bed: Bed, strategy: Strategy, batches: range) -> dict[str, int]:
    alone = naive_captures({OFF, strategy}, MAX_BATCH)
    return {
        "captures": len(captures_of(strategy, batches, MAX_BATCH)),
        "captures_single": len(alone),
        "bytes_single": _bytes(bed, alone),
    }


def _bytes(bed: Bed, captures: Iterable[Capture]) -> int:
    """Of a pool with these graphs, the largest first: measured on a GPU, modelled on a CPU."""
    if bed.device.type == "cuda":
        return measure(bed, captures)
    config: Any = bed.model.config
    return MemoryModel.of(config.hidden_size, config.intermediate_size, config.vocab_size, bed.model.dtype.itemsize).bytes(captures)


@torch.inference_mode()
def measure(bed: Bed, captures: Iterable[Capture], recorder: Recorder | None = None) -> int:
    """Records the graphs and frees them; their bytes. They run the training side's modules, which attend within the pass only."""
    drafter = Drafter(bed.model.config).to(bed.device)
    largest_first = sorted(captures, key=lambda capture: -capture.rows)
    pool = GraphPool(bed.device, range(len(largest_first)), recorder)
    for key, capture in enumerate(largest_first):
        shape = (capture.batch, capture.tokens)
        inputs = {"tokens": torch.zeros(shape, dtype=torch.long, device=bed.device)}
        inputs["noise"] = torch.zeros(*shape, bed.model.config.vocab_size, device=bed.device)
        if capture.part != "target":
            inputs["positions"] = torch.zeros_like(inputs["tokens"])
            inputs["features"] = torch.zeros(*shape, bed.model.config.hidden_size, device=bed.device)
        pool.run(key, partial(_forward, bed.model, drafter), inputs)
    used = pool.bytes
    pool.clear()
    return used


def _forward(model: Any, drafter: Drafter, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    if "features" in inputs:
        features = drafter(model.get_input_embeddings()(inputs["tokens"]), inputs["features"], inputs["positions"])
    else:
        features = model.model(inputs["tokens"], use_cache=False).last_hidden_state
    logits = model.lm_head(features).float()
    return {"features": features, "logits": logits, "drawn": (logits.log_softmax(-1) + inputs["noise"]).argmax(-1)}
