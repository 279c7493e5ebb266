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

from engine.bench.arm_comparison import compared, estimates, spread, step_times
from engine.bench.arms import COUNTDOWN, LONG_TAILED, Config, Runs, Scale, take_turns
from engine.bench.runs import steps, wall_seconds
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
        "estimates": estimates(runs),
        "drift": found,
    }


def course(runs: Sequence[Runs]) -> dict[str, Any]:
    """How the arms' wall time adds up: medians over seeds. ``wall_s`` is that of the whole run, and ``speedup`` TLT's against the other
    arms. ``crossover_step`` is of the medians, and ``crossover_steps`` are those of the seeds; see ``crossover``. ``after`` so many steps:
    also the reward and how far the policy has moved (``kl``, from the start policy)."""
    walls = [{arm: wall_seconds(events[arm]) for arm in ARMS} for events in runs]
    curves = {arm: [round(median(values), 2) for values in zip(*(wall[arm] for wall in walls), strict=True)] for arm in ARMS}
    count = len(curves["tlt"])
    ends = [count * mark // MARKS for mark in range(1, MARKS + 1)]
    return {
        "seeds": len(runs),
        "steps": count,
        "wall_s": {arm: curve[-1] for arm, curve in curves.items()},
        "wall_range_s": {arm: spread([wall[arm][-1] for wall in walls]) for arm in ARMS},
        "speedup": {arm: spread([wall[arm][-1] / wall["tlt"][-1] for wall in walls]) for arm in ARMS if arm != "tlt"},
        "accept_first": {arm: _mean(runs, arm, "accept_length", 0, WINDOW) for arm in ARMS},
        "accept_last": {arm: _mean(runs, arm, "accept_length", max(count - WINDOW, 0), count) for arm in ARMS},
        "crossover_step": crossover(curves["tlt"], curves["static"]),
        "crossover_steps": [crossover(wall["tlt"], wall["static"]) for wall in walls],
        "after": {str(end): _moment(runs, curves, end, count // MARKS) for end in ends},
        "wall_by_step_s": curves,
    }


def crossover(curve: Sequence[float], other: Sequence[float]) -> int | None:
    """The first step from which on ``curve`` is below ``other`` to the end; None if it is not at the end."""
    above = [step for step, (one, another) in enumerate(zip(curve, other, strict=True)) if one >= another]
    first = above[-1] + 1 if above else 0
    return first if first < len(curve) else None


def _moment(runs: Sequence[Runs], curves: Curves, end: int, width: int) -> dict[str, Any]:
    """After ``end`` steps: the seconds so far, and means over the last ``width`` steps; the policy's own are TLT's, but alike in all."""
    return {
        "wall_s": {arm: curve[end - 1] for arm, curve in curves.items()},
        "accept": {arm: _mean(runs, arm, "accept_length", end - width, end) for arm in curves},
        "reward": _mean(runs, "tlt", "reward_mean", end - width, end),
        "kl": _mean(runs, "tlt", "kl", end - width, end),
    }


def _mean(runs: Sequence[Runs], arm: str, name: str, start: int, end: int) -> float | None:
    """Over these steps of every seed; None if none of them has it."""
    values = [step.metrics[name] for events in runs for step in steps(events[arm])[start:end] if name in step.metrics]
    return round(fmean(values), 3) if values else None


def _print(after: Mapping[str, Any]) -> None:
    columns = [*(f"{arm} s" for arm in ARMS), *(f"accept {arm}" for arm in ARMS[1:]), "reward", "kl"]
    print(f"{'steps':>6}" + "".join(f"{column:>15}" for column in columns))
    for end, found in after.items():
        values = [*found["wall_s"].values(), *(found["accept"][arm] for arm in ARMS[1:]), found["reward"], found["kl"]]
        print(f"{end:>6}" + "".join(f"{'-' if value is None else f'{value:.2f}':>15}" for value in values), flush=True)
