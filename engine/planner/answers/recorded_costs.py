"""What a recorded run's other phases took, by its responses and the tokens that they computed with."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import RunConfig
from engine.planner.answers.least_squares import not_negative
from engine.planner.answers.recorded_run import RecordedStep
from engine.planner.simulation.phase_costs import PhaseCosts, inferred, updated_with

PHASES = {"inference": inferred, "update": updated_with}


def recorded_costs(computed: PhaseCosts, steps: Sequence[RecordedStep], config: RunConfig, prompt: float, share: float) -> PhaseCosts:
    """``computed`` with what was measured in its place, where a step has the phase. ``config`` is that of the recorded run; ``share``:
    recorded workers for each planned one."""
    measured = {
        "reward": median(step.phases.get("reward", 0.0) / len(step.lengths) for step in steps),
        "sync": fmean(step.phases.get("sync", 0.0) for step in steps),
    }
    for name, chosen in PHASES.items():
        lengths = [chosen(config, np.array(step.lengths)) + prompt for step in steps]
        if found := by_length(lengths, [step.phases.get(name, 0.0) for step in steps]):
            measured |= {name: found[0] * share, f"{name}_square": found[1] * share}
    if "update" in measured:
        measured["update_once"] = 0.0
    return replace(computed, measured=frozenset(measured), **measured)


def by_length(lengths: Sequence[NDArray[np.floating[Any]]], taken: Sequence[float]) -> tuple[float, float] | None:
    """Seconds that a phase takes for each token, and for each pair of tokens of the same response, by the ``lengths`` of each step and the
    seconds ``taken``: least squares of the relative error tell the one from the other, neither below 0, and the median of the steps how
    many seconds both are, lest one that was held up counts. None if no step tells."""
    sums = np.array([(each.sum(), (each**2).sum()) for each in lengths])
    seconds = np.array(taken)
    known = (seconds > 0) & (sums[:, 0] > 0)
    if not known.any():
        return None
    units, sums, seconds = sums.max(axis=0), sums[known], seconds[known]
    fitted = not_negative(sums / units / seconds[:, None], np.ones(len(seconds))) / units if len(seconds) > 2 else np.array([1.0, 0.0])
    scale = float(np.median(seconds / (sums @ fitted)))
    return float(fitted[0]) * scale, float(fitted[1]) * scale
