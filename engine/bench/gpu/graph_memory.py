"""How much memory the CUDA graphs of one strategy take, and those of TLT's four."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.bench.gpu.parts import Part
from engine.bench.graphs import MAX_BATCH, TLT, measure, naive_captures
from engine.bench.random_model import qwen2_config
from engine.models.folder import TINY
from engine.planner.model_shape import shape
from engine.rollout.native.graphs.plan import Capture, GraphPlan, batch_ranges
from engine.rollout.native.graphs.pool import CudaRecorder
from engine.speculation.strategy import OFF


def run(part: Part) -> None:
    """Bytes that are reserved for them, beside plain decoding's, which are among both. Without a GPU on the emulated one."""
    config: Any = qwen2_config(shape(str(TINY) if part.scale.emulated else part.scale.shape))
    ranges = batch_ranges(TLT, MAX_BATCH)
    first = next(strategy for strategy in ranges if strategy != OFF)
    sets: dict[str, Iterable[Capture]] = {"1": naive_captures({OFF, first}, MAX_BATCH), "4": GraphPlan.of(ranges, MAX_BATCH)}
    on: AbstractContextManager[object] = EmulatedCuda() if part.scale.emulated else nullcontext()
    with on:
        like = torch.empty(0, device=CUDA, dtype=torch.float32 if part.scale.emulated else torch.bfloat16)
        graphs: dict[str, Any] = {}
        for name, captures in sets.items():
            chosen = [capture for capture in captures if capture.batch <= part.scale.graph_batch]
            graphs[name] = {"graphs": len(chosen), "bytes": measure(config, like, chosen, CudaRecorder(CUDA))}
            part.found(strategies=graphs)
