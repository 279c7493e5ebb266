"""What a decode step's time goes to: the kernels that take most of it."""

from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from engine.bench.gpu.models import device, random
from engine.bench.gpu.parts import Part
from engine.bench.testbed import fixed, timed, untrained
from engine.config import RolloutConfig
from engine.rollout.data_type import native_data_type
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.from_model import engine_from_model

MOST = 15
BATCH, PROMPT = 8, 64
ARMS = {"plain": None, "tree": fixed(8, 4, 24)}


def run(part: Part) -> None:
    """Of a random model with a real one's shape, so that head and noise have their true size; its drafts are worth nothing."""
    model = random(part.scale, native_data_type(device(), 4096) if torch.cuda.is_available() else torch.float32)
    requests = [Request(number, number, tuple(range(1, PROMPT + 1))) for number in range(min(BATCH, max(part.scale.batches)))]
    sampling = Sampling(max_new_tokens=min(32, part.scale.tokens))
    for arm, speculation in ARMS.items():
        drafter = untrained(model.config) if speculation else None
        engine = engine_from_model(model, frozenset(), speculation, drafter, rollout=RolloutConfig(max_batch=len(requests)))
        timed(engine, requests, sampling)
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        with profile(activities=activities) as profiled:
            _, statistics, seconds = timed(engine, requests, sampling)
        part.found(**{arm: {"step_ms": round(1000 * seconds / statistics.decode_steps, 3), "kernels": _kernels(profiled)}})
        del engine


def _kernels(profiled: profile) -> dict[str, float]:
    """Milliseconds of each in all steps, those that take most."""
    name = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    events: list[Any] = sorted(profiled.key_averages(), key=lambda event: -getattr(event, name))[:MOST]
    return {event.key[:100].replace("|", "/"): round(getattr(event, name) / 1000, 3) for event in events}
