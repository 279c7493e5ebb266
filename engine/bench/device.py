"""``bench device``: what a decode step, an update and a training step of the drafter cost a GPU besides their arithmetic, counted on an
emulated one: launches, graphs, and how often the host waits."""

from collections.abc import Mapping
from statistics import median_low
from typing import Any

import torch
from torch import Tensor

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.bench.testbed import Bed
from engine.bench.training_steps import counts, drafter_step, learner_step
from engine.rollout.interface import Sampling
from engine.rollout.native.drafting import scratch
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response, StopCondition
from engine.speculation.speculator import StepPlan
from engine.speculation.strategy import OFF, Context, Strategy

BATCH, STEPS, WARM_UP = 8, 12, 3
STRATEGIES = {"plain": OFF, "chain4": Strategy("eagle", 4, 1, 4), "tree": Strategy("eagle", 8, 4, 24)}


def run(quick: bool, model: str) -> dict[str, Any]:
    """Of a decode step of 8 requests the median, when every graph is there; of training see ``training_steps``. ``peak_bytes_model`` are
    the bytes of the tree's tensors, as they are on the emulated device: what a step takes besides is the most there was."""
    bed = Bed(model, torch.float32, torch.device("cpu"))
    steps = WARM_UP + (1 if quick else STEPS)
    found = {name: _decode(bed, strategy, steps) for name, strategy in STRATEGIES.items()}
    memory = {part: found["tree"].pop(f"{part}_bytes") for part in ("weights", "cache", "graphs", "step")}
    decoding = {name: {what: counted[what] for what in ("launches", "graph_launches", "syncs")} for name, counted in found.items()}
    training = {"learner": learner_step(bed), "drafter": drafter_step(bed)}
    return {"facts": bed.facts(), "requests": BATCH, **decoding, **training, "peak_bytes_model": memory}


@torch.inference_mode()
def _decode(bed: Bed, strategy: Strategy, steps: int) -> dict[str, int]:
    weights: Mapping[str, Tensor] = {name: weight.detach() for name, weight in bed.model.named_parameters()}
    responses = [Response(request) for request in bed.requests(BATCH)]
    with EmulatedCuda() as device:
        plan = GraphPlan.of({OFF: range(1, BATCH + 1), strategy: range(1, BATCH + 1)}, BATCH)
        runner = Runner(bed.model.config, torch.empty(0, device=CUDA, dtype=bed.dtype), strategy != OFF, plan)
        runner.load_target(weights)
        if strategy != OFF:
            runner.load_drafter(bed.trained_drafter())
        loaded = device.bytes
        tokens = steps * (strategy.verify + 1)
        runner.reserve(BATCH, max(response.length for response in responses) + tokens + scratch(strategy, CUDA))
        reserved = device.bytes
        sampler, ends = TokenSampler(Sampling(seed=1), bed.model.config.vocab_size, CUDA), StopCondition(frozenset())
        runner.prefill(range(BATCH), [response.known for response in responses])
        context = Context(BATCH)
        step = StepPlan(context) if strategy == OFF else StepPlan(context, strategy, strategy)
        counted: list[dict[str, int]] = []
        for _ in range(steps):
            device.forget()
            drawn = runner.decode(responses, sampler, step)
            counted.append(_counts(device))
            for response, new in zip(responses, drawn, strict=True):
                response.extend(new.tokens, new.logprobs, ends, limit=2**20)
        medians = {name: median_low(each[name] for each in counted[WARM_UP:]) for name in counted[0]}
        graphs = runner.passes.pool.bytes
    return medians | {"weights_bytes": loaded, "cache_bytes": reserved - loaded, "graphs_bytes": graphs}


def _counts(device: EmulatedCuda) -> dict[str, int]:
    return counts(device) | {"step_bytes": device.peak - device.bytes}
