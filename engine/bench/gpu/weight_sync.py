"""How long new weights take from the policy into an engine on the same GPU: float32 into the engine's data type."""

import time
from statistics import median

import torch

from engine.bench.gpu.models import device, random
from engine.bench.gpu.parts import Part
from engine.config import RolloutConfig
from engine.models.weights import base_weights
from engine.rollout.data_type import native_data_type
from engine.rollout.native.engine import NativeEngine

REPETITIONS = 3


def run(part: Part) -> None:
    """With the check of what has arrived, as a run's sync has it."""
    policy = random(part.scale, torch.float32)
    weights, dtype = base_weights(policy), native_data_type(device(), policy.config.hidden_size)
    engine = NativeEngine(
        policy.config, weights, rollout=RolloutConfig(), speculation=None, end_tokens=frozenset(), device=device(), dtype=dtype
    )
    seconds: dict[str, list[float]] = {"load": [], "check": []}
    for version in range(REPETITIONS):
        began = time.perf_counter()
        engine.load_target(weights, version)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        loaded = time.perf_counter()
        engine.loaded_weights()
        seconds["load"].append(loaded - began)
        seconds["check"].append(time.perf_counter() - loaded)
    parameters = sum(weight.numel() for weight in weights.values())
    medians = {f"{name}_s": round(median(each), 4) for name, each in seconds.items()}
    part.found(parameters=parameters, bytes=parameters * dtype.itemsize, **medians)
