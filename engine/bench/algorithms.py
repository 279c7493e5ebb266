"""``bench algorithms``: each algorithm, as its name sets it, learns countdown: reward before and after, over seeds."""

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from engine.bench.runs import metric, run_engine
from engine.bench.testbed import machine
from engine.config.algorithm import ALGORITHMS

STEPS, ENDS = 60, 10


def run(quick: bool, model: str, folder: Path) -> dict[str, Any]:
    """``start`` and ``end``: mean reward of the first and last ``ENDS`` steps, over seeds; ``spread``: the standard deviation over seeds
    of the reward at the end; ``learns``: whether the reward rose by more than that. ``folder`` gets the runs."""
    seeds = (1,) if quick else (1, 2, 3)
    rewards: dict[str, list[list[float]]] = {name: [] for name in ALGORITHMS}
    for seed in seeds:
        for name in ALGORITHMS:
            events = run_engine(folder / f"{name}-{seed}", configuration(name, model, seed, 6 if quick else STEPS))
            rewards[name].append(metric(events, "reward_mean"))
    return {"facts": machine(), "seeds": seeds, "algorithms": {name: summary(curves) for name, curves in rewards.items()}}


def configuration(name: str, model: str, seed: int, steps: int) -> dict[str, Any]:
    """That of one run; all algorithms have the same learning rate and as many responses a step. What is learned depends neither on the
    number of workers nor on speculation, and short responses of one worker are the quickest to have."""
    return {
        "seed": seed,
        "model": {"path": model},
        "task": {"name": "countdown", "four_numbers": 0.0},
        "algorithm": {"name": name, "steps": steps, "prompts_per_step": 8, "group_size": 8, "learning_rate": 2e-5},
        "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 256},
        "speculation": {"enabled": False},
        "checkpoint": {"every": steps},
        "cluster": {"workers": 1},
    }


def summary(curves: list[list[float]]) -> dict[str, Any]:
    """Of one algorithm's rewards by seed and step."""
    starts, ends = ([fmean(curve[part]) for curve in curves] for part in (slice(ENDS), slice(-ENDS, None)))
    spread = stdev(ends) if len(ends) > 1 else 0.0
    gain = fmean(ends) - fmean(starts)
    return {
        "start": round(fmean(starts), 3),
        "end": round(fmean(ends), 3),
        "spread": round(spread, 3),
        "learns": gain > spread,
        "curves": curves,
    }
