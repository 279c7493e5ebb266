"""``bench e2e --scenario repeats``: a data set so small that every prompt comes back, as in a run of several epochs.

What was written to a prompt in earlier epochs drafts for it (engine.speculation.ngram), by itself or beside the learned drafter. In the
first epoch there are only siblings of the same step to draft from: how much faster the later ones are is what that memory is worth.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

from engine.bench.arm_comparison import spread
from engine.bench.arms import LONG_TAILED, Config, Runs, Scale, take_turns
from engine.bench.runs import steps, wall_seconds
from engine.bench.testbed import machine
from engine.tasks.countdown import Problem, generate, reward

ARMS = ("plain", "ngram", "tlt")


def scored(row: dict[str, Any], response: str) -> float:
    """Countdown's reward of a row of ``problems``."""
    return reward(Problem(tuple(row["numbers"]), row["target"]), response)


def problems(count: int) -> list[dict[str, Any]]:
    """As the runs of other benchmarks have them: a quarter has four numbers."""
    rng = Random(0)
    drawn = [generate(rng, 0.25) for _ in range(count)]
    return [{"question": problem.prompt, "numbers": problem.numbers, "target": problem.target} for problem in drawn]


def scale(quick: bool, model: str, data: Path) -> Scale:
    prompts, epochs, a_step, tokens = sizes(quick)
    task: Config = {"name": "function", "function": "engine.bench.repeats:scored", "path": str(data), "prompt": "{question}"}
    algorithm = LONG_TAILED | {"steps": epochs * prompts // a_step, "prompts_per_step": a_step}
    rollout: Config = {"max_prompt_tokens": 64, "max_new_tokens": tokens}
    return Scale(model, {"task": task, "algorithm": algorithm, "rollout": rollout}, ARMS, 1)


def sizes(quick: bool) -> tuple[int, int, int, int]:
    """Prompts, epochs, prompts of a step, tokens of a response."""
    return (4, 2, 2, 128) if quick else (64, 8, 8, 1024)


def run(quick: bool, model: str, folder: Path, seeds: int | None) -> dict[str, Any]:
    """``folder`` gets the runs and their data."""
    count, epochs, *_ = sizes(quick)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "repeats.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in problems(count)), encoding="utf-8")
    chosen = scale(quick, model, data)
    turns = seeds or chosen.seeds
    runs = take_turns(folder, "repeats", chosen, turns)
    return {
        "facts": machine() | {"workers": 2, "model": model, "prompts": count},
        "seeds": turns,
        "repeats": {"steps": chosen.steps, "epochs": epochs, "arms": {arm: course(runs, arm, epochs) for arm in ARMS if arm != "plain"}},
    }


def course(runs: Sequence[Runs], arm: str, epochs: int) -> dict[str, Any]:
    """Against plain. ``rollout_by_epoch``: how much faster the rollouts of each epoch are; with ``accept_by_epoch``, the tokens that a pass
    brings: medians over seeds."""
    whole = [wall_seconds(events["plain"])[-1] / wall_seconds(events[arm])[-1] for events in runs]
    rollouts = [_by_epoch([step.phases["rollout"] for step in steps(events["plain"])], epochs) for events in runs]
    own = [_by_epoch([step.phases["rollout"] for step in steps(events[arm])], epochs) for events in runs]
    accepted = [_by_epoch([step.metrics.get("accept_length", 1.0) for step in steps(events[arm])], epochs) for events in runs]
    ratios = [[plain / mine for plain, mine in zip(*seed, strict=True)] for seed in zip(rollouts, own, strict=True)]
    return {
        "speedup": spread(whole),
        "rollout_by_epoch": [round(median(values), 3) for values in zip(*ratios, strict=True)],
        "accept_by_epoch": [round(median(values), 3) for values in zip(*accepted, strict=True)],
    }


def _by_epoch(values: Sequence[float], epochs: int) -> list[float]:
    """The mean of each epoch's steps."""
    length = len(values) // epochs
    return [fmean(values[start : start + length]) for start in range(0, length * epochs, length)]
