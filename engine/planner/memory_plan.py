"""The memory of a GPU in each phase of a step, put together."""

from dataclasses import dataclass

from engine.config.learner import LearnerConfig
from engine.planner import drafter_memory, memory
from engine.planner.memory import OVERHEAD, Hardware, Load, Parts
from engine.planner.model_shape import Shape

DRAFTER_TOKENS = 1024
"""drafter.spot.tokens_per_microbatch by default."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes by what takes them. ``phases``: of the fullest GPU at the worst moment of each phase; ``host``: of a worker's host memory;
    ``cache``: tokens of keys and values that a worker has room for, whatever is asked of it."""

    parts: Parts
    phases: Parts
    host: int
    cache: int
    fits: bool


def plan(shape: Shape, hardware: Hardware, learner: LearnerConfig, load: Load) -> MemoryPlan:
    """Of a worker on ``hardware``. The engine keeps its weights between rollouts, and the drafter's trainer its states always."""
    states = memory.states(shape, learner, hardware.ranks, load.reference)
    passes = memory.passes(shape, learner, load.tokens)
    engine = memory.engine(shape, hardware, load)
    trainer = drafter_memory.states(shape, load.kind) + drafter_memory.target_ends(shape, learner)
    training = trainer if load.drafter else 0
    host = sum(states.values()) * hardware.tensor_parallel if learner.cpu_offload else 0
    resident = 0 if learner.cpu_offload else sum(states.values()) - states["gradients"]
    gradients = 0 if learner.cpu_offload else states["gradients"]
    cache = engine["KV cache"]
    always = OVERHEAD + resident + sum(engine.values()) - cache + training
    kept = 0 if load.released else cache
    phases = {
        "rollout": always + cache,
        "drafter training": always + kept + drafter_step(shape, load),
        "update": always + kept + gradients + sum(passes.values()),
    }
    most = max(phases.values())
    parts = states | passes | engine | {"drafter training": training, "context and buffers": OVERHEAD}
    spare = hardware.memory - (always if load.released else most - cache)
    room = max(0, spare) * hardware.tensor_parallel // (memory.HALF * shape.cached)
    return MemoryPlan(parts, phases, host, room, most <= hardware.memory)


def drafter_step(shape: Shape, load: Load) -> int:
    """A micro-step of the drafter."""
    return drafter_memory.step(shape, load.kind, load.unroll, DRAFTER_TOKENS) if load.drafter else 0
