"""What a recorded run's other phases took, by its responses and their tokens."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np

from engine.planner.answers.recorded_run import RecordedRun, RecordedStep
from engine.planner.simulation.phase_costs import PhaseCosts

MEASURED = frozenset(("reward", "inference", "inference_square", "update", "update_square", "update_once", "sync"))


def recorded_costs(computed: PhaseCosts, recorded: RecordedRun, prompt: float, share: float) -> PhaseCosts:
    """``computed`` with what was measured in its place, where a step has the phase; the first step, in which caches are filled, counts
    only if it is the only one. ``share``: recorded workers for each planned one."""
    steps = recorded.steps[1:] or recorded.steps
    (inference, inference_square), (update, update_square) = (by_length(steps, name, prompt) for name in ("inference", "update"))
    return replace(
        computed,
        reward=median(step.phases.get("reward", 0.0) / len(step.lengths) for step in steps),
        inference=inference * share,
        inference_square=inference_square * share,
        update=update * share,
        update_square=update_square * share,
        update_once=0.0,
        sync=fmean(step.phases.get("sync", 0.0) for step in steps),
        measured=MEASURED,
    )


def by_length(steps: Sequence[RecordedStep], name: str, prompt: float) -> tuple[float, float]:
    """Seconds that phase ``name`` takes for each token, and for each pair of tokens of the same response: least squares tell the one from
    the other, neither below 0, and the median of the steps how many seconds both are, lest one that was held up counts."""
    lengths = [np.array(step.lengths) + prompt for step in steps]
    sums = np.array([(each.sum(), (each**2).sum()) for each in lengths])
    seconds = np.array([step.phases.get(name, 0.0) for step in steps])
    fitted = _not_negative(sums, seconds) if len(steps) > 2 else np.array([1.0, 0.0])
    scale = float(np.median(seconds / (sums @ fitted))) if fitted.any() else 0.0
    return float(fitted[0]) * scale, float(fitted[1]) * scale


def _not_negative(sums: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Least squares of two coefficients: where one would be negative, the better one alone."""
    units = sums.max(axis=0)
    scaled = sums / units
    both = np.linalg.lstsq(scaled, seconds, rcond=None)[0]
    alone = np.diag((scaled * seconds[:, None]).sum(axis=0) / (scaled**2).sum(axis=0))
    better = both if both.min() >= 0 else min(alone, key=lambda each: float(((scaled @ each - seconds) ** 2).sum()))
    found: np.ndarray = better / units
    return found
