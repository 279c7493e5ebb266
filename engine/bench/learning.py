"""``bench learning``: what a policy learns with speculation and without, over seeds; and asynchronously, from policies one update old.

On a CPU the first two generate the same responses to the bit. On a GPU a near tie parts them; from then on they are two runs, as of two
seeds.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.bench.runs import metric, run_engine
from engine.bench.testbed import machine
from engine.config import merged
from engine.events import AnyEvent

ARMS: dict[str, dict[str, Any]] = {
    "plain": {"speculation": {"enabled": False}},
    "tlt": {},
    "asynchronous": {"rollout": {"scheduling": {"asynchronous": True}}},
}
STEPS, WINDOW = 100, 10
Curve = Sequence[float]


def run(quick: bool, model: str, folder: Path) -> dict[str, Any]:
    """``same_steps``: how many steps of each seed have the same reward with TLT as plainly, from the first on. ``inside_band``: the share
    of steps at which the mean over the runs with TLT lies between the least and the greatest of the plain ones, all smoothed over
    ``WINDOW`` steps; ``asynchronous_inside_band``: that of the asynchronous runs. ``logprob_gap``: the mean over all steps of mean
    |rollout - training log-prob|. ``folder`` gets the runs."""
    seeds, count = ((1,), 4) if quick else ((1, 2, 3), STEPS)
    runs: dict[str, list[list[AnyEvent]]] = {arm: [] for arm in ARMS}
    for seed in seeds:
        for arm, found in runs.items():
            found.append(run_engine(folder / f"learning-{arm}-{seed}", configuration(model, arm, seed, count)))
    curves = {arm: [metric(events, "reward_mean") for events in found] for arm, found in runs.items()}
    gaps = {arm: [fmean(metric(events, "logprob_gap", 9)) for events in found] for arm, found in runs.items()}
    return {
        "facts": machine() | {"workers": 2, "model": model, "steps": count},
        "seeds": seeds,
        "same_steps": [same(plain, fast) for plain, fast in zip(curves["plain"], curves["tlt"], strict=True)],
        "inside_band": round(inside(curves["tlt"], curves["plain"]), 3),
        "asynchronous_inside_band": round(inside(curves["asynchronous"], curves["plain"]), 3),
        "logprob_gap": {arm: round(fmean(found), 9) for arm, found in gaps.items()},
        "reward_final": {arm: [round(fmean(curve[-WINDOW:]), 4) for curve in found] for arm, found in curves.items()},
        "curves": curves,
    }


def configuration(model: str, arm: str, seed: int, count: int) -> dict[str, Any]:
    """That of one run."""
    common = {
        "seed": seed,
        "model": {"path": model},
        "algorithm": {"steps": count, "prompts_per_step": 8, "group_size": 4, "kl_coefficient": 0.0, "learning_rate": 2e-5},
        "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 256},
        "checkpoint": {"every": count},
        "cluster": {"workers": 2},
    }
    return merged(common, ARMS[arm])


def same(one: Curve, other: Curve) -> int:
    """Steps until two curves part."""
    return next((step for step, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


def inside(curves: Sequence[Curve], others: Sequence[Curve]) -> float:
    """The share of steps at which the mean of ``curves`` is in the band of ``others``."""
    middle = [fmean(values) for values in zip(*map(smoothed, curves), strict=True)]
    bands = [(min(values), max(values)) for values in zip(*map(smoothed, others), strict=True)]
    return fmean(low <= value <= high for value, (low, high) in zip(middle, bands, strict=True))


def smoothed(curve: Curve) -> list[float]:
    """Means of ``WINDOW`` values, or of all if there are fewer."""
    width = min(WINDOW, len(curve))
    return [fmean(curve[start : start + width]) for start in range(len(curve) - width + 1)]
