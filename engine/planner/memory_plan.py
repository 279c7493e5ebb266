"""The memory of a GPU in each phase of a step, put together."""

from dataclasses import dataclass

from engine.config.learner import LearnerConfig
from engine.planner import memory
from engine.planner.memory import OVERHEAD, Hardware, Load, Parts
from engine.planner.model_shape import Shape


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
    training = memory.drafter_training(shape) if load.drafter else 0
    host = sum(states.values()) * hardware.tensor_parallel if learner.cpu_offload else 0
    resident = 0 if learner.cpu_offload else sum(states.values()) - states["gradients"]
    gradients = 0 if learner.cpu_offload else states["gradients"]
    cache = engine["KV cache"]
    always = OVERHEAD + resident + sum(engine.values()) - cache + training
    kept = 0 if load.released else cache
    phases = {
        "rollout": always + cache,
        "drafter training": always + kept + drafter_pass(shape, load),
        "update": always + kept + gradients + sum(passes.values()),
    }
    most = max(phases.values())
    parts = states | passes | engine | {"drafter training": training, "context and buffers": OVERHEAD}
    spare = hardware.memory - (always if load.released else most - cache)
    room = max(0, spare) * hardware.tensor_parallel // (memory.HALF * shape.cached)
    return MemoryPlan(parts, phases, host, room, most <= hardware.memory)


def drafter_pass(shape: Shape, load: Load) -> int:
    """A micro-step of the drafter in float32, on 1,024 tokens: two passes, and logits of draft and target."""
    if not load.drafter:
        return 0
    layer = memory.layer_activations(shape, LearnerConfig())
    return 1024 * 2 * (layer + 3 * memory.FLOAT * shape.vocabulary)
