"""All that a plan answers, as plain values."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from engine.config import RunConfig
from engine.errors import ConfigError
from engine.planner.answers.advice import Advice, advice
from engine.planner.answers.arms import Arm, arms
from engine.planner.answers.basis import Basis, basis
from engine.planner.answers.machine_choice import Offer, by_count, cheapest
from engine.planner.answers.recorded_run import RecordedRun
from engine.planner.answers.sensitivity import BreakEven, Influence, break_evens, influences
from engine.planner.hardware import GIGA, Gpu, Machines
from engine.planner.simulation.event_record import events
from engine.planner.simulation.response_lengths import ResponseLengths
from engine.planner.simulation.run import Simulation
from engine.speculation.tuner.cost_table import CostTable

SPARED = ("cpu",)
"""Kinds that nobody wants who does not ask for them."""
TIMELINE_STEPS = 3
"""Steps whose events a plan has."""


@dataclass(frozen=True)
class Compared:
    """A recorded step beside the same one simulated: seconds of the step, and of its rollout."""

    step: int
    measured_s: float
    predicted_s: float
    measured_rollout_s: float
    predicted_rollout_s: float


@dataclass(frozen=True)
class Plan:
    """``machines``, time and money of every arm; ``offers``: against the number of GPUs, or the cheapest for a deadline. ``memory``: GB of
    the fullest GPU by phase. ``timeline``: events of the first steps as configured."""

    machines: str
    workers: int
    steps: int
    dollars_per_hour: float
    lengths: str
    correction: float
    notes: list[str]
    memory: dict[str, float]
    arms: list[Arm]
    influences: list[Influence]
    break_evens: list[BreakEven]
    advice: list[Advice]
    offers: list[Offer]
    recorded: list[Compared]
    timeline: list[dict[str, Any]]

    @property
    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def plan(
    config: RunConfig,
    machines: Machines,
    gpus: dict[str, Gpu],
    lengths: ResponseLengths | None = None,
    recorded: RecordedRun | None = None,
    recorded_config: RunConfig | None = None,
    costs: CostTable | None = None,
    deadline: float | None = None,
    deep: bool = True,
    plain: tuple[RecordedRun, RunConfig] | None = None,
) -> Plan:
    """``deep``: with sensitivity, break-even, advice, and other machines, which take most of the time. ConfigError, ModelError or
    DataError if it cannot be planned."""
    if deadline is not None and not deadline > 0:
        raise ConfigError(f"deadline: must be above 0 (got {deadline}); give hours, or leave it out")
    if not config.algorithm.steps:
        raise ConfigError("algorithm.steps: 0 steps only pretrain a drafter, which takes drafter.pretrain_minutes; set it to at least 1")
    if config.rollout.scheduling.asynchronous:
        raise ConfigError(
            "rollout.scheduling.asynchronous=True: a plan has one step after the other, and does not know what goes on beside an update; "
            "set it to false"
        )

    def based(given: Machines) -> Basis:
        return basis(config, given, lengths, recorded, recorded_config, costs, plain=plain)

    found = based(machines)
    offers: list[Offer] = []
    if deep and deadline:
        offers = cheapest(based, config, _kinds(machines, {} if recorded or costs else gpus), deadline)
    elif deep:
        offers = by_count(based, config, machines)
    return Plan(
        str(machines),
        found.assumptions.workers,
        config.algorithm.steps,
        machines.dollars_per_hour,
        str(found.assumptions.lengths),
        found.correction,
        list(found.notes),
        {name: size / GIGA for name, size in found.memory.phases.items()} if found.memory else {},
        arms(found),
        influences(found) if deep else [],
        break_evens(found) if deep else [],
        advice(found) if deep else [],
        offers,
        compared(found, recorded) if recorded else [],
        timeline(found),
    )


def _kinds(machines: Machines, others: dict[str, Gpu]) -> list[Machines]:
    """The kind that was asked for, at its price, and ``others``. These are none where costs were measured: they say nothing of other
    kinds."""
    return [machines, *(Machines(name, gpu, 1, gpu.price) for name, gpu in others.items() if name not in (*SPARED, machines.name))]


def compared(found: Basis, recorded: RecordedRun) -> list[Compared]:
    """What the plan's configuration takes for the recorded lengths and acceptance, beside what the run took."""
    simulated = Simulation(found.config, found.assumptions).steps(len(recorded.steps))
    return [
        Compared(was.index, was.seconds, step.seconds, was.phases.get("rollout", 0.0), step.phases["rollout"])
        for was, step in zip(recorded.steps, simulated, strict=True)
    ]


def timeline(found: Basis, steps: int = TIMELINE_STEPS, began: float | None = None) -> list[dict[str, Any]]:
    """Events of the first steps."""
    simulated = Simulation(found.config, found.assumptions).steps(steps)
    told = events(found.config, found.assumptions, simulated, found.shape.parameters, time.time() if began is None else began)
    return [event.model_copy(update={"seq": seq}).model_dump(mode="json") for seq, event in enumerate(told)]
