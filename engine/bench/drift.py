"""``bench e2e --scenario drift``: a run in which the policy moves away from what its drafter was trained for.

The drafter fits the first policy, as after pretraining. The policy learns twice as fast as by default, so that it leaves the drafter
behind within the run, as that of a long training does. All arms of a seed generate the same responses to the bit (on a CPU) and so move
alike; what parts them is who drafts: nobody, a drafter that stays as it is, or one that idle workers train. KL term and reference are the
default's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from engine.bench.arm_comparison import compared, spread, step_times
from engine.bench.arms import COUNTDOWN, LONG_TAILED, Config, Runs, Scale, take_turns
from engine.bench.runs import metric, wall_seconds
from engine.bench.testbed import machine
from engine.config import merged

ARMS = ("plain", "static", "tlt")
LEARNING_RATE = 4e-5
WINDOW = 10
"""Steps at the beginning and at the end of the run over which accept lengths are averaged."""
MARKS = 4
"""Moments of the run, at equal distances, that the table shows."""
Curves = Mapping[str, Sequence[float]]


def scale(quick: bool, model: str) -> Scale:
    small: Config = {"algorithm": {"steps": 6, "prompts_per_step": 4}, "rollout": {"max_new_tokens": 256}} if quick else {}
    moving: Config = {"algorithm": LONG_TAILED | {"steps": 100, "learning_rate": LEARNING_RATE}}
    return Scale(model, merged(merged(COUNTDOWN, moving), small), ARMS)


def run(quick: bool, model: str, folder: Path, seeds: int | None) -> dict[str, Any]:
    """``folder`` gets the runs."""
    chosen = scale(quick, model)
    count = seeds or (1 if quick else chosen.seeds)
    runs = take_turns(folder, "drift", chosen, count)
    found = course(runs)
    _print(found["after"])
    return {
        "facts": machine() | {"workers": 2, "model": model, "learning_rate": LEARNING_RATE},
        "seeds": count,
        "plain": step_times([events["plain"] for events in runs]),
        "arms": {arm: compared(runs, arm) for arm in ARMS if arm != "plain"},
        "drift": found,
    }


def course(runs: Sequence[Runs]) -> dict[str, Any]:
    """How the arms' wall time adds up: medians over seeds. ``wall_s`` is that of the whole run, and ``speedup`` TLT's against the other
    arms. ``crossover_step`` is of the medians, and ``crossover_steps`` are those of the seeds; see ``crossover``."""
    walls = [{arm: wall_seconds(events[arm]) for arm in ARMS} for events in runs]
    curves = {arm: [round(median(values), 2) for values in zip(*(wall[arm] for wall in walls), strict=True)] for arm in ARMS}
    accepted = {arm: [metric(events[arm], "accept_length") for events in runs] for arm in ARMS}
    steps = len(curves["tlt"])
    ends = [steps * mark // MARKS for mark in range(1, MARKS + 1)]
    return {
        "steps": steps,
        "wall_s": {arm: curve[-1] for arm, curve in curves.items()},
        "wall_range_s": {arm: spread([wall[arm][-1] for wall in walls]) for arm in ARMS},
        "speedup": {arm: spread([wall[arm][-1] / wall["tlt"][-1] for wall in walls]) for arm in ARMS if arm != "tlt"},
        "accept_first": {arm: _mean(found, 0, WINDOW) for arm, found in accepted.items()},
        "accept_last": {arm: _mean(found, max(steps - WINDOW, 0), steps) for arm, found in accepted.items()},
        "crossover_step": crossover(curves["tlt"], curves["static"]),
        "crossover_steps": [crossover(wall["tlt"], wall["static"]) for wall in walls],
        "after": {str(end): _moment(curves, accepted, end, steps // MARKS) for end in ends},
        "wall_by_step_s": curves,
    }


def crossover(curve: Sequence[float], other: Sequence[float]) -> int | None:
    """The first step from which on ``curve`` is below ``other`` to the end; None if it is not at the end."""
    above = [step for step, (one, another) in enumerate(zip(curve, other, strict=True)) if one >= another]
    first = above[-1] + 1 if above else 0
    return first if first < len(curve) else None


def _moment(curves: Curves, accepted: Mapping[str, Sequence[Sequence[float]]], end: int, width: int) -> dict[str, Any]:
    """After ``end`` steps: the seconds so far, and the accept lengths of the last ``width`` steps."""
    lengths = {arm: _mean(found, end - width, end) for arm, found in accepted.items()}
    return {"wall_s": {arm: curve[end - 1] for arm, curve in curves.items()}, "accept": lengths}


def _mean(runs: Sequence[Sequence[float]], start: int, end: int) -> float:
    """Over these steps of every seed."""
    return round(fmean(value for run in runs for value in run[start:end]), 3)


def _print(after: Mapping[str, Any]) -> None:
    print(f"{'steps':>6}" + "".join(f"{arm + ' s':>10}" for arm in ARMS) + "".join(f"{'accept ' + arm:>16}" for arm in ARMS[1:]))
    for steps, found in after.items():
        seconds = "".join(f"{found['wall_s'][arm]:>10.1f}" for arm in ARMS)
        print(f"{steps:>6}{seconds}" + "".join(f"{found['accept'][arm]:>16.2f}" for arm in ARMS[1:]), flush=True)
