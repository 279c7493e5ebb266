"""The memory of a GPU in each phase of a step, put together."""

from dataclasses import dataclass

from engine.config import RunConfig
from engine.config.learner import LearnerConfig
from engine.drafter.kind import RECIPE_KINDS
from engine.planner import drafter_memory, memory
from engine.planner.memory import HALF, OVERHEAD, Hardware, Load, Parts
from engine.planner.model_shape import Shape
from engine.rollout.native.graphs.plan import GraphPlan
from engine.rollout.native.graphs.step_memory import Widths, step_memory


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes by what takes them. ``phases``: of the fullest GPU at the worst moment of each phase; ``host``: of a worker's host memory;
    ``cache``: tokens that a worker's cache has room for, whatever is asked of it; ``together``: how many of the requests asked for fit at
    once at their longest. If those are not all, the cache takes what there is, and requests wait while it is full; so a run fits if one
    does."""

    parts: Parts
    phases: Parts
    host: int
    cache: int
    together: int
    fits: bool


def load_of(config: RunConfig) -> Load:
    """What a worker of the run has to do."""
    rollout, algorithm, recipe = config.rollout, config.algorithm, config.drafter.recipe
    return Load(
        algorithm.tokens_per_microbatch,
        rollout.max_batch,
        rollout.max_prompt_tokens + rollout.max_new_tokens,
        reference=algorithm.kl_coefficient > 0,
        drafter=config.speculation.enabled,
        released=rollout.engine == "native" or rollout.sglang.release_memory,
        kind=RECIPE_KINDS[recipe],
        unroll=config.drafter.spot.unroll or drafter_memory.UNROLLS[recipe],
        drafter_tokens=config.drafter.spot.tokens_per_microbatch,
        speculation=config.speculation,
    )


def plan(shape: Shape, hardware: Hardware, learner: LearnerConfig, load: Load) -> MemoryPlan:
    """Of a worker on ``hardware``. The engine keeps its weights between rollouts, and the drafter's trainer its states always."""
    states = memory.states(shape, learner, hardware.ranks, load.reference)
    passes = memory.passes(shape, learner, load.microbatch)
    engine = memory.engine(shape, hardware, load)
    trainer = drafter_memory.states(shape, load.kind) + drafter_memory.target_ends(shape, learner)
    training = trainer if load.drafter else 0
    host = memory.offloaded(shape, states, hardware.ranks) * hardware.tensor_parallel if learner.cpu_offload else 0
    resident = 0 if learner.cpu_offload else sum(states.values()) - states["gradients"]
    gradients = 0 if learner.cpu_offload else states["gradients"]
    always = OVERHEAD + resident + sum(engine.values()) - engine["KV cache"] + training
    steps = decode_steps(shape, load)
    others = {
        "rollout": always + steps,
        "drafter training": always + drafter_session(shape, load),
        "update": always + gradients + sum(passes.values()),
    }
    spare = max(0, hardware.memory - (others["rollout"] if load.released else max(others.values()))) * hardware.tensor_parallel
    together = min(load.requests, spare // memory.request(shape, load))
    cache = engine["KV cache"] = engine["KV cache"] if together == load.requests else spare // hardware.tensor_parallel
    phases = {name: size + (0 if load.released and name != "rollout" else cache) for name, size in others.items()}
    parts = states | passes | engine | {"graphs and steps": steps, "drafter training": training, "context and buffers": OVERHEAD}
    fits = together > 0 and max(phases.values()) <= hardware.memory
    return MemoryPlan(parts, phases, host, spare // memory.position(shape, load), together, fits)


def decode_steps(shape: Shape, load: Load) -> int:
    """What a rollout takes beside weights and cache."""
    graphs = GraphPlan.of_engine(load.speculation if load.drafter else None, load.requests)
    return step_memory(graphs, Widths(shape.vocabulary, shape.hidden, 3 * shape.intermediate, HALF))


def drafter_session(shape: Shape, load: Load) -> int:
    """A session of training the drafter, beside its states."""
    return drafter_memory.session(shape, load.kind, load.unroll, load.drafter_tokens) if load.drafter else 0
