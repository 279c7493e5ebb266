"""``bench e2e --scenario cold``: runs that have no drafter at the start. What TLT has by the end, its idle workers have trained meanwhile.

It begins as a copy of the target's last layer (``drafter.path: null``). Until it drafts well n-grams draft, or nobody does.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from engine.bench.arm_comparison import compared, spread, step_times
from engine.bench.arms import COUNTDOWN, LONG_TAILED, Config, Runs, Scale, take_turns
from engine.bench.runs import wall_seconds
from engine.bench.testbed import machine
from engine.config import merged

ARMS = ("plain", "tlt")
WINDOW = 10


def scale(quick: bool, model: str) -> Scale:
    short: Config = {"algorithm": {"steps": 4, "prompts_per_step": 4}, "rollout": {"max_new_tokens": 256}} if quick else {}
    cold: Config = {"algorithm": LONG_TAILED | {"steps": 60}, "drafter": {"path": None}}
    return Scale(model, merged(merged(COUNTDOWN, cold), short), ARMS)


def run(quick: bool, model: str, folder: Path, seeds: int | None) -> dict[str, Any]:
    """``folder`` gets the runs."""
    chosen = scale(quick, model)
    count = seeds or (1 if quick else chosen.seeds)
    runs = take_turns(folder, "cold", chosen, count)
    return {
        "facts": machine() | {"workers": 2, "model": model},
        "seeds": count,
        "plain": step_times([events["plain"] for events in runs]),
        "arms": {"tlt": compared(runs, "tlt")},
        "cold": course(runs, 2 if quick else WINDOW),
    }


def course(runs: Sequence[Runs], width: int) -> dict[str, Any]:
    """TLT against plain. ``least_window`` is the least speed-up in any ``width`` steps in a row, where each step has its median over seeds,
    and ``window_begins`` its first step; ``least_windows`` are those of each seed alone, with its machine's noise."""
    seconds = {arm: [step_seconds(wall_seconds(events[arm])) for events in runs] for arm in ARMS}
    middle = {arm: [median(values) for values in zip(*of_seeds, strict=True)] for arm, of_seeds in seconds.items()}
    ratios = window_ratios(middle["plain"], middle["tlt"], width)
    pairs = list(zip(seconds["plain"], seconds["tlt"], strict=True))
    return {
        "seeds": len(runs),
        "steps": len(middle["tlt"]),
        "wall_s": {arm: spread([sum(each) for each in of_seeds]) for arm, of_seeds in seconds.items()},
        "speedup": spread([sum(plain) / sum(tlt) for plain, tlt in pairs]),
        "window": width,
        "least_window": round(min(ratios), 3),
        "window_begins": ratios.index(min(ratios)),
        "least_windows": [round(min(window_ratios(plain, tlt, width)), 3) for plain, tlt in pairs],
        "ratio_by_window": [round(ratio, 3) for ratio in ratios],
    }


def step_seconds(wall: Sequence[float]) -> list[float]:
    """Of each step, from the times at which they end."""
    return [end - begin for begin, end in zip([0.0, *wall], wall, strict=False)]


def window_ratios(one: Sequence[float], other: Sequence[float], width: int) -> list[float]:
    """``one`` over ``other`` in every window of ``width`` steps, or of all if there are fewer."""
    width = min(width, len(one))
    windows = range(len(one) - width + 1)
    return [sum(one[start : start + width]) / sum(other[start : start + width]) for start in windows]
