"""``bench scheduling``: what each way to schedule a rollout's tail does to a step's time, in whole runs of plain decoding, in turns.

Steps of all arms learn from as many responses. Those that stop early leave some of what they generated for the next step, or for nobody.
"""

from pathlib import Path
from statistics import fmean, median
from typing import Any

from engine.bench.runs import metric, run_engine, steps
from engine.bench.testbed import machine
from engine.events import AnyEvent

ARMS: dict[str, dict[str, Any]] = {
    "off": {},
    "longest_first": {"longest_first": True},
    "over_sampling": {"over_sampling": 1.5},
    "partial": {"over_sampling": 1.5, "partial": True},
}
OWN = ("forecast_correlation", "stopped_responses", "unused_tokens", "stale_share")


def run(quick: bool, model: str, folder: Path) -> dict[str, Any]:
    """``model`` with each seed: all arms in turn, every time with another one first. Means over the steps of all seeds but each run's
    first, in which there is nothing to go on with; ``speedup`` is the median over seeds of the arm's whole time against ``off``'s.
    ``folder`` gets the runs."""
    seeds, count = ((1,), 4) if quick else ((1, 2, 3), 10)
    runs: list[dict[str, list[AnyEvent]]] = []
    for turn, seed in enumerate(seeds):
        order = [*ARMS][turn % len(ARMS) :] + [*ARMS][: turn % len(ARMS)]
        runs.append({arm: run_engine(folder / f"{arm}-{seed}", configuration(model, arm, seed, count)) for arm in order})
    facts = machine() | {"workers": 2, "model": model, "steps": count}
    return {"facts": facts, "seeds": seeds, "arms": {arm: _summed(runs, arm) for arm in ARMS}}


def configuration(model: str, arm: str, seed: int, count: int) -> dict[str, Any]:
    """That of one run."""
    return {
        "seed": seed,
        "model": {"path": model},
        "task": {"name": "countdown", "four_numbers": 0.25},
        "algorithm": {"steps": count, "prompts_per_step": 8, "group_size": 4, "kl_coefficient": 0.0},
        "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 1024, "scheduling": ARMS[arm]},
        "speculation": {"enabled": False},
        "cluster": {"workers": 2},
    }


def _summed(runs: list[dict[str, list[AnyEvent]]], arm: str) -> dict[str, Any]:
    found = [step for events in runs for step in steps(events[arm])[1:]]
    means = {name: fmean(step.metrics[name] for step in found) for name in OWN if name in found[0].metrics}
    return {
        "step_s": round(fmean(step.seconds for step in found), 3),
        "rollout_s": round(fmean(step.phases["rollout"] for step in found), 3),
        "speedup": round(median(_seconds(events["off"]) / _seconds(events[arm]) for events in runs), 3),
        "idle_s": round(fmean(step.metrics["idle_seconds"] for step in found), 3),
        "response_tokens": round(fmean(step.metrics["response_tokens"] for step in found), 1),
        "reward": round(fmean(value for events in runs for value in metric(events[arm], "reward_mean")), 4),
    } | {name: round(value, 4) for name, value in means.items()}


def _seconds(events: list[AnyEvent]) -> float:
    return sum(step.seconds for step in steps(events)[1:])
