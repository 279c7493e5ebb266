"""``bench e2e``: whole RL runs, plain and three ways faster, in turns (TLT section 6).

On a CPU all arms of a seed generate the same responses to the bit and learn the same, so their times compare step by step; on a GPU near
ties part them, and only sums over many steps compare.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from engine.bench.runs import harvest, metric, run_engine, sessions, steps
from engine.bench.testbed import machine
from engine.config import merged
from engine.errors import ConfigError
from engine.events import AnyEvent

Config = dict[str, Any]
Events = Mapping[str, list[AnyEvent]]
"""Those of one seed's runs, by arm."""

UNTRAINED: Config = {"drafter": {"spot": {"enabled": False}}}
NGRAMS = [{"drafter": "ngram", "depth": depth, "verify": depth} for depth in (8, 3)]
ARMS: dict[str, Config] = {
    "plain": {"speculation": {"enabled": False}},
    "ngram": {"speculation": {"strategies": NGRAMS}, "drafter": {"path": None, "spot": {"enabled": False}}},
    "static": UNTRAINED,
    "tlt": {},
}


@dataclass(frozen=True)
class Scale:
    """What all arms share. ``algorithm`` and ``rollout`` are sections of a run's configuration."""

    model: str
    dtype: str
    algorithm: Config
    rollout: Config = field(default_factory=lambda: {"max_prompt_tokens": 64, "max_new_tokens": 1024})
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: int = 3


def scales(quick: bool) -> dict[str, Scale]:
    """``demo`` and ``small``: long-tailed responses; ``uniform``: short ones of one length, at which speculation can win little. What is
    to be seen there is smaller than a process's luck with its memory: there are more runs, long enough for what is paid once."""
    count, few, many = (2, 2, 2) if quick else (8, 4, 48)
    long = {"prompts_per_step": 8, "group_size": 4}
    wide = {"prompts_per_step": 16, "group_size": 8}
    return {
        "demo": Scale("tiny", "auto", long | {"steps": count}),
        "small": Scale("small", "auto", long | {"steps": few}),
        "uniform": Scale("tiny", "auto", wide | {"steps": many}, {"max_prompt_tokens": 64, "max_new_tokens": 16}, ("plain", "tlt"), 9),
    }


def run(quick: bool, model: str) -> dict[str, Any]:
    """Each scale (the one of that name, or those of that model) with each seed: all arms in turn, every time with another one first.

    ``arms`` repeats those of the last scale that speculation is made for: ``small``, if it is among them.
    """
    chosen = {name: scale for name, scale in scales(quick).items() if model in ("all", name, scale.model)}
    if not chosen:
        raise ConfigError(f"--model: there is no scale {model}; choose one of {', '.join(scales(quick))}, or leave it out for all")
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        results = {name: _scale(Path(folder) / name, scale, 1 if quick else scale.seeds) for name, scale in chosen.items()}
    shown = max(results, key=("uniform", "demo", "small").index)
    return {"facts": machine() | {"workers": 2}, "arms": results[shown]["arms"], **results}


def _scale(folder: Path, scale: Scale, seeds: int) -> dict[str, Any]:
    runs: list[Events] = []
    for seed in range(1, seeds + 1):
        first = seed % len(scale.arms)
        order = scale.arms[first:] + scale.arms[:first]
        runs.append({arm: run_engine(folder / f"{folder.name}-{arm}-{seed}", configuration(scale, arm, seed)) for arm in order})
    result = {
        "model": scale.model,
        "dtype": scale.dtype,
        "seeds": seeds,
        "steps": scale.algorithm["steps"],
        "rollout_share": spread([_rollout(events["plain"]) / _seconds(events["plain"]) for events in runs]),
        "arms": {arm: _compared(runs, arm) for arm in scale.arms if arm != "plain"},
    }
    print(f"{folder.name}: {result}", flush=True)
    return result


def configuration(scale: Scale, arm: str, seed: int) -> Config:
    """That of one run."""
    shared: Config = {
        "seed": seed,
        "model": {"path": scale.model, "dtype": scale.dtype},
        "task": {"name": "countdown", "four_numbers": 0.25},
        "algorithm": scale.algorithm | {"kl_coefficient": 0.0},
        "rollout": scale.rollout,
        "drafter": {"spot": {"tokens_per_microbatch": 512}},
        "cluster": {"workers": 2},
    }
    return merged(shared, ARMS[arm])


def _compared(runs: list[Events], arm: str) -> dict[str, Any]:
    """``arm`` against plain, over all seeds. Its time has the drafter's in it: training, publishing and loading.

    Medians over seeds: ``s``, the rollout's share of plain's time, ``r``, the rollout's speed-up, and ``e2e``, the whole run's.
    """
    rewards = [[metric(events[name], "reward_mean") for name in ("plain", arm)] for events in runs]
    rollout = spread([_rollout(events["plain"]) / _rollout(events[arm]) for events in runs])
    whole = spread([_seconds(events["plain"]) / _seconds(events[arm]) for events in runs])
    return {
        "s": spread([_rollout(events["plain"]) / _seconds(events["plain"]) for events in runs])["median"],
        "r": rollout["median"],
        "e2e": whole["median"],
        "e2e_min": whole["least"],
        "e2e_max": whole["most"],
        "reward_final": [fast[-1] for _, fast in rewards],
        "rollout_speedup": rollout,
        "accept_length": [metric(events[arm], "accept_length") for events in runs],
        "harvest": [harvest(steps(events[arm])) for events in runs],
        "versions": [sum(session.published for session in sessions(events[arm])) for events in runs],
        "rewards": [fast for _, fast in rewards],
        "rewards_plain": [plain for plain, _ in rewards],
        "same_rewards": all(plain == fast for plain, fast in rewards),
    }


def spread(values: list[float]) -> dict[str, float]:
    """Of one value a seed."""
    return {"median": round(median(values), 3), "least": round(min(values), 3), "most": round(max(values), 3)}


def _seconds(events: list[AnyEvent]) -> float:
    return sum(step.seconds for step in steps(events))


def _rollout(events: list[AnyEvent]) -> float:
    return sum(step.phases["rollout"] for step in steps(events))
