"""``bench e2e``: whole RL runs of the default configuration, plain and in four ways faster, in turns (TLT section 6).

On a CPU all arms of a seed generate the same responses to the bit and learn the same, so their times compare step by step; on a GPU near
ties part them, and only sums over many steps compare. ``--scenario`` chooses other runs: see ``drift``, ``cold_start`` and ``repeats``.
"""

from pathlib import Path
from typing import Any

import torch

from engine.bench import cold_start, drift, repeats
from engine.bench.arm_comparison import compared, estimates, rollout_share, spread, step_times, training_step_ratios
from engine.bench.arms import COUNTDOWN, LONG_TAILED, Config, Scale, take_turns
from engine.bench.testbed import machine
from engine.config import merged
from engine.drafter.kind import drafter_kind
from engine.errors import ConfigError
from engine.models.folder import kept, read_facts
from engine.models.load import resolve
from engine.rollout.data_type import native_data_type

REAL = "smollm2-135m"
SCENARIOS = {"drift": drift.run, "cold": cold_start.run, "repeats": repeats.run}
SHOWN = ("uniform", "demo", REAL, "small")


def scales(quick: bool, drafter: Path | None = None) -> dict[str, Scale]:
    """``demo``, ``small`` and the real model: long-tailed responses; ``uniform``: short ones of one length, at which speculation can win
    little. What is to be seen there is smaller than a process's luck with its memory: there are more runs, long enough for what is paid
    once. ``drafter``: the folder of the real model's; without one its runs have none at the start."""
    demo, few, many = (2, 2, 2) if quick else (8, 4, 48)
    wide: Config = {"algorithm": {"steps": many, "prompts_per_step": 16, "group_size": 8}, "rollout": {"max_new_tokens": 16}}
    return {
        "demo": Scale("tiny", _long(COUNTDOWN, demo)),
        "small": Scale("small", _long(COUNTDOWN, few)),
        REAL: Scale(REAL, _long({**_word_problems(drafter), "rollout": {"max_prompt_tokens": 160, "max_new_tokens": 512}}, few)),
        "uniform": Scale("tiny", merged(COUNTDOWN, wide), ("plain", "tlt"), 9),
    }


def run(
    quick: bool, model: str, folder: Path, scenario: str | None = None, drafter: Path | None = None, seeds: int | None = None
) -> dict[str, Any]:
    """Each scale (the one of that name, or those of that model) with each seed: all arms in turn, every time with another one first.
    ``folder`` gets the runs. Of a ``scenario`` see there. ``skipped`` says why a scale is left out.

    ``arms`` repeats those of the last scale that speculation is made for: ``small``, if it is among them.
    """
    if scenario:
        return SCENARIOS[scenario](quick, "tiny" if model == "all" else model, folder, seeds)
    found, skipped = chosen(quick, model, drafter)
    results = {name: _measured(folder, name, scale, seeds or (1 if quick else scale.seeds)) for name, scale in found.items()}
    shown = results[max(results, key=SHOWN.index)]
    facts = machine() | {"workers": 2}
    return {"facts": facts, "seeds": shown["seeds"], "arms": shown["arms"], "skipped": skipped, **results}


def chosen(quick: bool, model: str, drafter: Path | None) -> tuple[dict[str, Scale], dict[str, str]]:
    """The scales to run, and why others that were meant are not. ConfigError if ``model`` alone was meant."""
    there = scales(quick, drafter)
    meant = {name: scale for name, scale in there.items() if model in ("all", name, scale.model)}
    if not meant:
        raise ConfigError(f"--model: there is no scale {model}; choose one of {', '.join(there)}, or leave it out for all")
    skipped: dict[str, str] = {}
    if REAL in meant and kept(REAL) is None:
        skipped[REAL] = f"{REAL} is not on this machine: longtail models get {REAL}"
    elif REAL in meant and quick and model == "all":
        skipped[REAL] = f"it takes too long for --quick; --model {REAL} measures it alone"
    for name, reason in skipped.items():
        print(f"{name} is left out: {reason}", flush=True)
    if model in skipped:
        raise ConfigError(f"--model: {skipped[model]}")
    return {name: scale for name, scale in meant.items() if name not in skipped}, skipped


def _measured(folder: Path, name: str, scale: Scale, seeds: int) -> dict[str, Any]:
    runs = take_turns(folder, name, scale, seeds)
    plain = [events["plain"] for events in runs]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    result: dict[str, Any] = {
        "model": scale.model,
        "dtype": str(native_data_type(device, read_facts(resolve(scale.model)).hidden_size)).removeprefix("torch."),
        "seeds": seeds,
        "steps": scale.steps,
        "drafter": Path(scale.config.get("drafter", {}).get("path", "builtin") or "none").name,
        "rollout_share": rollout_share(plain),
        "plain": step_times(plain),
        "arms": {arm: compared(runs, arm) for arm in scale.arms if arm != "plain"},
        "estimates": estimates(runs),
    }
    ratios = [ratio for events in runs if "static" in events for ratio in training_step_ratios(events["tlt"], events["static"])]
    if ratios:
        result["training"] = {"steps": len(ratios), "step_time_ratio": spread(ratios)}
    print(f"{name}: {result}", flush=True)
    return result


def _long(config: Config, steps: int) -> Config:
    return merged(config, {"algorithm": LONG_TAILED | {"steps": steps}})


def _word_problems(drafter: Path | None) -> Config:
    """Of a pretrained model, with a drafter of whatever kind."""
    settings: Config = {"path": str(drafter.absolute()) if drafter else None}
    if drafter and drafter_kind(drafter) == "eagle3":
        settings["recipe"] = "eagle3"
    return {"task": {"name": "word_problems"}, "drafter": settings}
