"""``bench algorithms``: each algorithm, as its name sets it, learns countdown: reward before and after, over seeds."""

from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from engine.bench.bed import machine
from engine.bench.runs import metric, run_engine
from engine.policy.config import ALGORITHMS

STEPS, ENDS = 60, 10


def run(quick: bool, model: str) -> dict[str, Any]:
    """``start`` and ``end``: mean reward of the first and last ``ENDS`` steps, over seeds; ``spread``: the standard deviation over seeds
    of the reward at the end; ``learns``: whether the reward rose by more than that."""
    seeds = (1,) if quick else (1, 2, 3)
    rewards: dict[str, list[list[float]]] = {name: [] for name in ALGORITHMS}
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        for seed in seeds:
            for name in ALGORITHMS:
                events = run_engine(Path(folder) / f"{name}-{seed}", configuration(name, model, seed, 6 if quick else STEPS))
                rewards[name].append(metric(events, "reward_mean"))
    return {"facts": machine(), "seeds": seeds, "algorithms": {name: _summary(curves) for name, curves in rewards.items()}}


def configuration(name: str, model: str, seed: int, steps: int) -> dict[str, Any]:
    """That of one run; all algorithms have the same learning rate and as many responses a step."""
    return {
        "seed": seed,
        "model": {"path": model},
        "algorithm": {"name": name, "steps": steps, "prompts_per_step": 8, "group_size": 8, "learning_rate": 2e-5},
        "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 512},
        "cluster": {"workers": 2},
    }


def _summary(curves: list[list[float]]) -> dict[str, Any]:
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
