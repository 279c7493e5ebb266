"""What a plan rests on: machines, model, memory, and what is assumed or was recorded of lengths, acceptance and costs."""

from contextlib import suppress
from dataclasses import dataclass, replace

from engine.config import RunConfig, SpotConfig
from engine.errors import ConfigError, ModelError
from engine.models.folder import locate, read_config
from engine.planner.answers.cache_room import LEAST_ROOM, requests_at_once
from engine.planner.answers.recorded_costs import recorded_costs
from engine.planner.answers.recorded_passes import corrected
from engine.planner.answers.recorded_run import RecordedRun
from engine.planner.calibration import Calibration, usual
from engine.planner.hardware import GIGA, Machines
from engine.planner.memory import Hardware, Load
from engine.planner.memory_plan import MemoryPlan, load_of
from engine.planner.memory_plan import plan as plan_memory
from engine.planner.model_shape import NEEDED, PRESETS, Shape, enlarged
from engine.planner.simulation.decode_costs import Roofline
from engine.planner.simulation.phase_costs import by_operations
from engine.planner.simulation.response_lengths import Recorded, ResponseLengths, assumed
from engine.planner.simulation.run import PROMPT_TOKENS_SHARE, Assumptions, Simulation, on_workers, scaled
from engine.speculation.tuner.cost_table import CostTable

MOST_RESPONSES = 400_000
REPLAYED = 8
"""Recorded steps, the last ones, by which decode costs are set right."""


@dataclass(frozen=True)
class Basis:
    """``config`` with as many workers as ``machines`` have room for; ``correction``: how many times as long the recorded run's rollouts
    took as by the costs that were assumed."""

    config: RunConfig
    machines: Machines
    shape: Shape
    assumptions: Assumptions
    memory: MemoryPlan | None
    correction: float = 1.0
    notes: tuple[str, ...] = ()

    def with_config(self, config: RunConfig) -> "Basis":
        """The same assumptions for another configuration of the same model and machines."""
        costs = self.assumptions.phases
        computed = by_operations(config, self.shape, self.machines, self.assumptions.calibration.efficiency)
        kept = {name: getattr(costs, name) for name in costs.measured}
        phases = replace(computed, measured=costs.measured, **kept)
        return replace(self, config=config, assumptions=replace(self.assumptions, phases=phases))


def model_shape(path: str) -> Shape:
    """Of a preset (7B and so on), a built-in or kept model, or a folder. ModelError if that does not say how large it is."""
    if path in PRESETS:
        return PRESETS[path]
    config = read_config(locate(path))
    if missing := [name for name in NEEDED if name not in config]:
        raise ModelError(
            f"model.path: {path}/config.json lacks {', '.join(missing)}; take a Hugging Face folder, or one of {', '.join(PRESETS)}"
        )
    return enlarged(Shape.of(config), path)


def basis(
    config: RunConfig,
    machines: Machines,
    lengths: ResponseLengths | None = None,
    recorded: RecordedRun | None = None,
    recorded_config: RunConfig | None = None,
    costs: CostTable | None = None,
    calibration: Calibration | None = None,
    plain: tuple[RecordedRun, RunConfig] | None = None,
) -> Basis:
    """``recorded``: a run whose lengths, acceptance and times are taken over, made with ``recorded_config`` (None: with ``config``);
    ``plain``: another one, without speculation, of which what plain decoding takes is taken over.
    ``costs``: a measured table in place of the roofline. ConfigError if the machines are too few or too small, or ``plain`` has drafted."""
    _check_size(config)
    found, shape = calibration or usual(), model_shape(config.model.path)
    workers = machines.count // config.rollout.gpus
    if not workers:
        told = f"gpus: {machines} is less than a worker takes (rollout.sglang.tensor_parallel={config.rollout.gpus})"
        raise ConfigError(f"{told}; give at least {config.rollout.gpus} GPUs, or lower that")
    config = on_workers(config, workers)
    memory = None if machines.name == "cpu" else _memory(config, machines, shape)
    members = (recorded_config or config).algorithm.group_size
    observed = Recorded(recorded.lengths, recorded.name, config.seed, members) if recorded else None
    lengths = lengths or observed or assumed(config.rollout.max_new_tokens, 0)
    prompt = (recorded and recorded.prompt) or PROMPT_TOKENS_SHARE * config.rollout.max_prompt_tokens
    slots = config.rollout.max_batch if memory is None else requests_at_once(config, memory.cache, lengths, prompt)
    fewer = f"the cache of a worker has room for about {slots} requests at once, not {config.rollout.max_batch}: the others wait"
    notes = (fewer,) if slots < config.rollout.max_batch else ()
    config = config.model_copy(update={"rollout": config.rollout.model_copy(update={"max_batch": slots})})
    roofline = Roofline(shape, machines.gpu, config.rollout.gpus, found.efficiency)
    phases = by_operations(config, shape, machines, found.efficiency)
    given = Assumptions(costs or roofline.table(), phases, lengths, found, config.cluster.workers, roofline.prefill(1), prompt)
    plan = Basis(config, machines, shape, given, memory, notes=notes)
    if not recorded:
        if plain:
            raise ConfigError("plain trace: it says nothing without a recorded run with speculation beside it; give --trace, too")
        return plan
    right = _as_recorded(plan, recorded, recorded_config or config)
    return _decoded_as(right, plan.assumptions.costs, *plain) if plain else right


def _check_size(config: RunConfig) -> None:
    """ConfigError if the simulation would not fit into the memory of a small host."""
    algorithm, evaluation = config.algorithm, config.evaluation
    sizes = {
        "algorithm.prompts_per_step": algorithm.prompts_per_step * algorithm.group_size,
        "evaluation.prompts": evaluation.prompts * evaluation.samples if evaluation.every else 0,
    }
    for field, responses in sizes.items():
        if responses > MOST_RESPONSES:
            raise ConfigError(f"{field}: {responses:,} responses at once are not simulated; take so few that there are {MOST_RESPONSES:,}")


def _memory(config: RunConfig, machines: Machines, shape: Shape) -> MemoryPlan:
    """ConfigError if the run cannot go on these GPUs at all."""
    node = min(machines.count, machines.gpu.gpus_per_node)
    hardware = Hardware(machines.nodes, node, int(machines.gpu.memory * GIGA), config.rollout.gpus)
    load, learner = load_of(config), config.cluster.learner
    found = plan_memory(shape, hardware, learner, load)
    if _has_room(found, load):
        return found
    most = max(found.phases, key=found.phases.__getitem__)
    told = f"gpus: {machines} has {machines.gpu.memory:g} GB a GPU, and {most} takes {found.phases[most] / GIGA:.0f} GB of the fullest"
    step, smaller = _smaller_steps(load, most)
    cause = [step] if _has_room(plan_memory(shape, hardware, learner, smaller), load) else []
    raise ConfigError(f"{told}; take {', '.join(cause + _remedies(config))}, or a lower rollout.max_new_tokens")


def _has_room(found: MemoryPlan, load: Load) -> bool:
    """With it a run goes: its cache holds more than one of the longest requests."""
    return found.fits and found.cache >= LEAST_ROOM * load.context


def _smaller_steps(load: Load, phase: str) -> tuple[str, Load]:
    """What sets the micro-batches of ``phase`` as low as they go, and the load with it: a row of an update is never cut; the drafter's are,
    but no more than by default."""
    if phase == "update":
        return f"algorithm.tokens_per_microbatch={load.context}", replace(load, tokens=min(load.tokens, load.context))
    usual_tokens = SpotConfig().tokens_per_microbatch
    return f"drafter.spot.tokens_per_microbatch={usual_tokens}", replace(load, drafter_tokens=min(load.drafter_tokens, usual_tokens))


def _remedies(config: RunConfig) -> list[str]:
    """What takes less of a GPU, as far as it is not taken yet."""
    learner = config.cluster.learner
    found = {
        "cluster.learner.parallel=fsdp": learner.parallel != "fsdp",
        "more GPUs": True,
        "cluster.learner.activation_checkpointing": not learner.activation_checkpointing,
        "cluster.learner.cpu_offload": not learner.cpu_offload,
        "a larger rollout.sglang.tensor_parallel": config.rollout.engine != "native",
    }
    return [remedy for remedy, there in found.items() if there]


def _as_recorded(plan: Basis, recorded: RecordedRun, config: RunConfig) -> Basis:
    """Other phases cost what they cost by token and response; decode costs are corrected by what its decode steps took, and then by a
    replay of the recorded run."""
    _check_recorded(config, plan, recorded, "trace")
    config, assumed_costs, prompt = on_workers(config, recorded.workers), plan.assumptions.costs, plan.assumptions.prompt
    firsts = recorded.firsts(plan.assumptions.calibration.acceptance)
    share = recorded.workers / plan.config.cluster.workers
    phases = recorded_costs(plan.assumptions.phases, recorded.settled, config, prompt, share)
    given = replace(plan.assumptions, phases=phases, firsts=tuple(firsts))
    correction = _correction(given, recorded, config)
    costs = corrected(assumed_costs, recorded.settled, prompt)
    known = scaled(assumed_costs, correction) if costs is assumed_costs else costs
    right = replace(given, costs=known, prefill=given.prefill * correction)
    rest = _correction(right, recorded, config)
    right = replace(right, costs=scaled(known, rest), prefill=right.prefill * rest)
    note = f"times are those that {recorded.name} took on its own machines, whatever {plan.machines} could do"
    return replace(plan, assumptions=right, correction=correction, notes=(*plan.notes, note))


def _correction(given: Assumptions, recorded: RecordedRun, config: RunConfig) -> float:
    """How many times as long its last rollouts took as they do when they are simulated."""
    last = recorded.settled[-REPLAYED:]
    own = Recorded(tuple(step.lengths for step in last), recorded.name, config.seed, config.algorithm.group_size)
    replayed = replace(given, lengths=own, workers=config.cluster.workers, firsts=given.firsts[-len(last) :])
    simulated = sum(step.phases["rollout"] for step in Simulation(config, replayed).steps(len(last)))
    return sum(step.phases["rollout"] for step in last) / simulated


def _decoded_as(plan: Basis, costs: CostTable, recorded: RecordedRun, config: RunConfig) -> Basis:
    """Plain decoding takes what it took there. ConfigError if that run drafted, or was of another model."""
    _check_recorded(config, plan, recorded, "plain trace")
    if config.speculation.enabled:
        raise ConfigError(f"plain trace: {recorded.name} is a run with speculation; give one with speculation.enabled: false")
    given = replace(plan.assumptions, costs=costs)
    correction = _correction(given, recorded, on_workers(config, recorded.workers))
    note = f"plain decoding is that of {recorded.name}"
    return replace(plan, assumptions=replace(plan.assumptions, plain=scaled(costs, correction)), notes=(*plan.notes, note))


def _check_recorded(config: RunConfig, plan: Basis, recorded: RecordedRun, field: str) -> None:
    """ConfigError if it was of a model of other sizes, if that one is here, or its rollouts do not take what their decoding takes."""
    with suppress(ModelError):
        if model_shape(config.model.path) != plan.shape:
            told = f"{field}: {recorded.name} is a run of {config.model.path}, whose sizes are not those of {plan.config.model.path}"
            raise ConfigError(f"{told}; give one of that")
    if config.rollout.scheduling.asynchronous:
        raise ConfigError(f"{field}: the run generated while it learned (rollout.scheduling.asynchronous); give one that did not")
