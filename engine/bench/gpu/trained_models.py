"""Which models' updates fit, by the planner's arithmetic, and how: all on the GPU, or offloaded to the host."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.bench.gpu.parts import Scale
from engine.cluster import host_memory
from engine.config import RunConfig
from engine.models.enlarge import enlarged_config
from engine.models.folder import DRAFTER, TINY
from engine.planner.memory import GB, Hardware
from engine.planner.memory_plan import MemoryPlan, load_of, plan
from engine.planner.model_shape import Shape

GROUP = 8
TOKENS = 8192
"""In a micro-batch: offloaded, each of them brings all weights to the GPU, twice."""
HOST_ROOM = 8 * GB
"""Of the host, for the process itself, its caches, and a file of weights that is read."""


OFFLOADED = "offloaded"
WAYS: Mapping[str, dict[str, Any]] = {
    "on the GPU": {},
    "in shards on the GPU": {"parallel": "fsdp"},  # which has no copy of all weights in bfloat16
    OFFLOADED: {"parallel": "fsdp", "cpu_offload": True},
}
"""The quickest first."""


@dataclass(frozen=True)
class Trained:
    """A model by its name in the scale, and one of ``WAYS`` to update it."""

    name: str
    way: str

    def __str__(self) -> str:
        return f"{self.name}, {self.way}"


@dataclass(frozen=True)
class Choice:
    """``trained``, the largest model first; ``left_out``: why larger ones are not among them, by name."""

    trained: list[Trained]
    left_out: Mapping[str, str]


def choose(scale: Scale) -> Choice:
    """Of what is free now. A rehearsal is of both ways that have paths of their own."""
    if not torch.cuda.is_available():
        return Choice([Trained(name, way) for name in scale.models for way in (OFFLOADED, next(iter(WAYS)))], {})
    return choice(scale, torch.cuda.mem_get_info()[0], host_memory.free())


def choice(scale: Scale, gpu: int, host: int) -> Choice:
    """Of so many bytes: the largest model that fits, offloaded if it has to be, and then also the largest one that need not be."""
    trained: list[Trained] = []
    left_out: dict[str, str] = {}
    for name in [*scale.models][::-1]:
        plans = {way: planned(scale, Trained(name, way), gpu) for way in WAYS}
        way = next((way for way, found in plans.items() if found.fits), None)
        if way is not None and way != OFFLOADED:
            return Choice([*trained, Trained(name, way)], left_out)
        needed = plans[OFFLOADED].host + HOST_ROOM
        if way is None:
            left_out[name] = f"offloaded it takes {max(plans[OFFLOADED].phases.values()) / GB:.0f} GB of the GPU's {gpu / GB:.0f}"
        elif needed > host:
            left_out[name] = f"offloaded it takes {needed / GB:.0f} GB of the host's {host / GB:.0f}"
        elif not trained:
            trained.append(Trained(name, OFFLOADED))
    return Choice(trained or [Trained(next(iter(scale.models)), next(iter(WAYS)))], left_out)


def planned(scale: Scale, trained: Trained, gpu: int) -> MemoryPlan:
    width, layers = scale.models[trained.name]
    config = configuration(TINY, DRAFTER, scale, trained.way)
    shape = Shape.of(enlarged_config(TINY, width, layers, own_head=True))
    return plan(shape, Hardware(gpus=1, memory=gpu), config.cluster.learner, load_of(config))


def configuration(model: Path, drafter: Path, scale: Scale, way: str) -> RunConfig:
    """Of one worker that has the machine for itself."""
    learner = {"packed": True, "activation_checkpointing": True, "precision": "float32" if scale.emulated else "bfloat16"}
    return RunConfig.model_validate(
        {
            "model": {"path": str(model)},
            "drafter": {"path": str(drafter)},
            "cluster": {"workers": 1, "learner": learner | WAYS[way]},
            "algorithm": {
                "prompts_per_step": scale.prompts,
                "group_size": GROUP,
                "updates_per_step": 2,
                "kl_coefficient": 0.0,
                "tokens_per_microbatch": TOKENS,
            },
            "rollout": {"engine": "native", "max_new_tokens": scale.tail_tokens, "max_batch": GROUP * scale.prompts},
        }
    )
