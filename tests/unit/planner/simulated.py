"""What tests of the simulator share: a small run on four GPUs."""

from collections.abc import Mapping
from typing import Any

from engine.config import RunConfig, merged, parse
from engine.planner.calibration import usual
from engine.planner.hardware import machines
from engine.planner.model_shape import PRESETS
from engine.planner.simulation.decode_costs import Roofline
from engine.planner.simulation.phase_costs import by_operations
from engine.planner.simulation.response_lengths import LogNormal
from engine.planner.simulation.run import Assumptions, SimulatedStep, Simulation

WORKERS = 4
SMALL: dict[str, Any] = {
    "algorithm": {"prompts_per_step": 16, "group_size": 4, "steps": 6},
    "rollout": {"max_new_tokens": 2048},
    "cluster": {"workers": WORKERS},
}


def config(changes: Mapping[str, Any] = SMALL) -> RunConfig:
    return parse(merged(SMALL, changes))


def assumptions(run: RunConfig) -> Assumptions:
    given, reached = machines(f"h100:{WORKERS}"), usual().efficiency
    roofline = Roofline(PRESETS["7B"], given.gpu, 1, reached)
    phases = by_operations(run, roofline.shape, given, reached)
    return Assumptions(roofline.table(), phases, LogNormal(300, 1.0), usual(), WORKERS, roofline.prefill(1), 128)


def steps(run: RunConfig, count: int = 3) -> list[SimulatedStep]:
    return list(Simulation(run, assumptions(run)).steps(count))


def seconds(run: RunConfig, count: int = 3) -> list[float]:
    return [step.seconds for step in steps(run, count)]
