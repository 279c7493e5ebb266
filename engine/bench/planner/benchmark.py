"""``bench planner``: what others measured, and runs on this machine, beside what the planner says; how fast it says it."""

import resource
import time
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.bench.planner import end_to_end, own_runs, strategies
from engine.bench.planner.cells import errors
from engine.bench.testbed import machine
from engine.config import parse
from engine.errors import ConfigError
from engine.planner.calibration import usual
from engine.planner.hardware import machines
from engine.planner.model_shape import PRESETS
from engine.planner.simulation.decode_costs import Roofline
from engine.planner.simulation.phase_costs import by_operations
from engine.planner.simulation.response_lengths import assumed
from engine.planner.simulation.run import Assumptions, Simulation

PROMPTS, WORKERS, STEPS = 10_000, 512, 100
LIMIT = 8_192


PARTS = ("published", "own", "scale")


def run(quick: bool, part: str, runs: Path) -> dict[str, Any]:
    """One of PARTS, or all: published figures, runs on this machine, and how fast a large plan is made."""
    if part not in (*PARTS, "all"):
        raise ConfigError(f"--model: there is no part {part}; choose one of {', '.join(PARTS)}, or leave it out for all")
    chosen = PARTS if part == "all" else (part,)
    result: dict[str, Any] = {"facts": machine()}
    if "published" in chosen:
        result |= published()
    if "own" in chosen:
        result |= own_runs.run(runs, 1 if quick else len(own_runs.CASES))
    if "scale" in chosen:
        result["scale"] = scale(4 if quick else STEPS)
    return result


def published() -> dict[str, Any]:
    """All cells; ``mean_abs_error`` is that of those which did not calibrate, and ``errors`` are these by table."""
    model = strategies.fitted()
    calibration = usual().model_copy(update={"efficiency": model.efficiency, "acceptance": model.acceptance})
    unpublished = end_to_end.fitted(calibration)
    cells = strategies.cells(model) + end_to_end.cells(calibration, unpublished)
    fitted = {"efficiency": model.efficiency.model_dump(), "breadth": model.acceptance.breadth, "decay": model.acceptance.decay}
    return {
        "fitted": fitted | asdict(unpublished),
        "published": [cell.plain for cell in cells],
        "mean_abs_error": round(fmean(cell.error for cell in cells if not cell.calibrates), 4),
        "errors": errors(cells),
    }


def scale(steps: int) -> dict[str, Any]:
    """64 nodes of 8 GPUs: seconds of the processor, and of memory the most."""
    config = parse(
        {
            "algorithm": {"prompts_per_step": PROMPTS, "group_size": 8, "steps": steps},
            "rollout": {"max_new_tokens": LIMIT},
            "cluster": {"workers": WORKERS},
        }
    )
    given, reached = machines(f"h100:{WORKERS}"), usual().efficiency
    roofline = Roofline(PRESETS["7B"], given.gpu, 1, reached)
    phases = by_operations(config, roofline.shape, given, reached)
    lengths = assumed(LIMIT, config.seed)
    assumptions = Assumptions(roofline.table(), phases, lengths, usual(), WORKERS, roofline.prefill(1), 128)
    began = time.process_time()
    simulated = sum(step.seconds for step in Simulation(config, assumptions).steps(steps))
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"gpus": WORKERS, "prompts_per_step": PROMPTS, "responses_per_step": 8 * PROMPTS, "steps": steps}
    return told | {"seconds": round(seconds, 1), "megabytes": round(memory), "simulated_hours": round(simulated / 3600, 2)}
