"""Published speed-ups of whole runs and of a rollout beside simulated ones."""

from dataclasses import dataclass
from itertools import product
from math import log
from statistics import fmean
from typing import Any

from engine.bench.planner.cells import PUBLISHED, Cell
from engine.config import RunConfig, parse
from engine.planner.calibration import Calibration
from engine.planner.hardware import machines
from engine.planner.model_shape import PRESETS
from engine.planner.simulation.decode_costs import Roofline
from engine.planner.simulation.phase_costs import by_operations
from engine.planner.simulation.response_lengths import LogNormal
from engine.planner.simulation.run import Assumptions, Simulation

TENSOR_PARALLEL = {"7B": 2, "32B": 4, "70B": 8}
STRATEGIES = [{"depth": 8, "top_k": 4, "verify": verify} for verify in (48, 32, 16, 8)]
TUNER = {"name": "beg", "epsilon": 0.1, "window": 300, "thresholds": [1, 2, 5, 21], "off_arm": False}
"""As in the released code of TLT."""
GROUP, LIMIT, PROMPT = 8, 32_768, 512
STEPS = 3
"""Simulated; the first, in which the tuner knows nothing, does not count."""


@dataclass(frozen=True)
class Unpublished:
    """What the paper leaves open: prompts of a step (of GROUP responses each), the law of the lengths, and how well drafts are accepted at
    the temperature of training."""

    prompts: int
    median: float
    spread: float
    first: float


CHOICES = tuple(product((64, 128, 256), (700.0, 1000.0, 1400.0), (1.2,), (0.84, 0.88, 0.92)))
CASE_REQUESTS = 128


def fitted(calibration: Calibration) -> Unpublished:
    """Of a coarse grid, what explains the runs that calibrate best."""
    return min((Unpublished(*each) for each in CHOICES), key=lambda tried: _squares(calibration, tried))


def _squares(calibration: Calibration, tried: Unpublished) -> float:
    return sum(log(cell.predicted / cell.measured) ** 2 for cell in cells(calibration, tried, only_calibrating=True))


def cells(calibration: Calibration, unpublished: Unpublished, only_calibrating: bool = False) -> list[Cell]:
    """Whole runs, every second of which calibrates, and the rollout of the case study, which does not."""
    found = []
    for index, run in enumerate(PUBLISHED["runs"]):
        if index % 2 == 0 or not only_calibrating:
            speedup, _ = speedups(calibration, unpublished, run["model"], run["nodes"] * 8, unpublished.prompts)
            found.append(Cell("end to end", run["name"], run["speedup"], speedup, index % 2 == 0))
    if not only_calibrating:
        case = PUBLISHED["rollout"]
        _, rollout = speedups(calibration, unpublished, "32B", 4, CASE_REQUESTS // GROUP)
        found.append(Cell("end to end", case["name"], case["speedup"], rollout, calibrates=False))
    return found


def speedups(calibration: Calibration, unpublished: Unpublished, model: str, gpus: int, prompts: int) -> tuple[float, float]:
    """Of whole steps, and of their rollouts, by TLT over plain decoding."""
    plain, tlt = (_seconds(calibration, unpublished, model, gpus, prompts, enabled) for enabled in (False, True))
    return plain[0] / tlt[0], plain[1] / tlt[1]


def _seconds(calibration: Calibration, unpublished: Unpublished, model: str, gpus: int, prompts: int, enabled: bool) -> tuple[float, float]:
    """Of a mean step, and of its rollout."""
    reached = calibration.efficiency
    acceptance = calibration.acceptance.model_copy(update={"first": unpublished.first, "static": 0.8 * unpublished.first})
    given, share = machines(f"h100:{gpus}"), TENSOR_PARALLEL[model]
    workers = min(gpus // share, prompts)
    config = _config(prompts, workers, enabled)
    roofline = Roofline(PRESETS[model], given.gpu, share, reached)
    lengths = LogNormal(unpublished.median, unpublished.spread, config.seed)
    phases = by_operations(config, roofline.shape, given, reached)
    own = calibration.model_copy(update={"acceptance": acceptance})
    assumptions = Assumptions(roofline.table(), phases, lengths, own, workers, roofline.prefill(1), PROMPT)
    steps = list(Simulation(config, assumptions).steps(STEPS))[1:]
    return fmean(step.seconds for step in steps), fmean(step.phases["rollout"] for step in steps)


def _config(prompts: int, workers: int, enabled: bool) -> RunConfig:
    config: dict[str, Any] = {
        "algorithm": {"prompts_per_step": prompts, "group_size": GROUP, "steps": 1000},
        "rollout": {"engine": "sglang", "max_new_tokens": LIMIT, "max_batch": 256, "max_prompt_tokens": 2 * PROMPT},
        "cluster": {"workers": workers, "learner": {"parallel": "fsdp", "activation_checkpointing": True}},
        "speculation": {"enabled": enabled, "threshold": 32, "strategies": STRATEGIES, "tuner": TUNER},
    }
    return parse(config)
