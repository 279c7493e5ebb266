"""``bench word_problems``: RL runs of a pretrained model: what it learns, plainly and with TLT, how long both take, and what training in
idle time makes of a drafter that was pretrained.

On a CPU both runs generate the same responses to the bit, so their steps compare in time one by one.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from engine.bench.learning import WINDOW, same
from engine.bench.runs import harvest, metric, run_engine, sessions, steps
from engine.bench.testbed import machine
from engine.config import merged
from engine.config.task import WordProblemsConfig
from engine.drafter.evaluate import CHAIN, DrafterMeasurement
from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import drafter_kind
from engine.events import AnyEvent
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.rollout.interface import Request, Sampling
from engine.tasks.registry import build_task

LONGEST = 256
FIRST = 10
"""Steps of the time that is told apart: before the policy has learnt to be brief."""


@dataclass(frozen=True)
class Size:
    """Minutes of the drafter's pretraining, RL steps, and prompts of a step and of the measurement at the end."""

    minutes: float
    steps: int
    prompts_per_step: int
    measured: int


FULL = Size(minutes=8, steps=40, prompts_per_step=8, measured=64)
QUICK = Size(minutes=0.5, steps=2, prompts_per_step=4, measured=8)


def run(quick: bool, model: str, folder: Path) -> dict[str, Any]:
    """``folder`` gets the runs."""
    size = QUICK if quick else FULL
    pretraining = {"algorithm": {"steps": 0}, "drafter": {"pretrain_minutes": size.minutes}}
    run_engine(folder / "drafter", merged(_configuration(model, size), pretraining), artifacts=True)
    first = folder / "drafter" / "artifacts" / "drafter"
    arms: dict[str, dict[str, Any]] = {"plain": {"speculation": {"enabled": False}}, "tlt": {"drafter": {"path": str(first)}}}
    runs = {arm: run_engine(folder / arm, merged(_configuration(model, size), changes), artifacts=True) for arm, changes in arms.items()}
    tlt = runs["tlt"]
    curves = {arm: metric(events, "reward_mean") for arm, events in runs.items()}
    return {
        "facts": machine() | {"workers": 2, "model": model, "steps": size.steps, "pretrain_minutes": size.minutes},
        "reward_start": {arm: round(fmean(curve[:WINDOW]), 4) for arm, curve in curves.items()},
        "reward_final": {arm: round(fmean(curve[-WINDOW:]), 4) for arm, curve in curves.items()},
        "same_steps": same(curves["plain"], curves["tlt"]),
        "first_steps": _times(runs["plain"], tlt, FIRST),
        "all_steps": _times(runs["plain"], tlt, size.steps),
        "harvest": harvest(steps(tlt)),
        "published": sum(session.published for session in sessions(tlt)),
        "accept_by_step": metric(tlt, "accept_length"),
        "accept": _accept_lengths(model, first, folder / "tlt" / "artifacts", size),
        "curves": curves,
    }


def _configuration(model: str, size: Size) -> dict[str, Any]:
    return {
        "seed": 1,
        "model": {"path": model},
        "task": {"name": "word_problems"},
        "algorithm": {
            "steps": size.steps,
            "prompts_per_step": size.prompts_per_step,
            "group_size": 8,
            "learning_rate": 2e-5,
            "kl_coefficient": 0.0,
        },
        "rollout": {"max_prompt_tokens": 160, "max_new_tokens": LONGEST},
        "drafter": {"recipe": "hass", "path": None},
        "cluster": {"workers": 2, "learner": {"precision": "auto", "packed": True}},
    }


def _times(plain: list[AnyEvent], tlt: list[AnyEvent], count: int) -> dict[str, float]:
    """Of the first ``count`` steps: the rollout's share of plain time, its speed-up, and that of all."""
    whole = {name: sum(step.seconds for step in steps(events)[:count]) for name, events in (("plain", plain), ("tlt", tlt))}
    rollout = {name: sum(step.phases["rollout"] for step in steps(events)[:count]) for name, events in (("plain", plain), ("tlt", tlt))}
    return {
        "rollout_share": round(rollout["plain"] / whole["plain"], 3),
        "rollout_speedup": round(rollout["plain"] / rollout["tlt"], 3),
        "e2e": round(whole["plain"] / whole["tlt"], 3),
    }


def _accept_lengths(model: str, first: Path, artifacts: Path, size: Size) -> dict[str, float]:
    """Of chains on prompts of another seed: the pretrained drafter with the first model (``base``) and with the updated one
    (``static``), and the drafter of the run's end with the updated one (``adaptive``)."""
    found: dict[str, float] = {}
    policy = artifacts / "policy"
    arms = {"base": (resolve(model), first), "static": (policy, first), "adaptive": (policy, artifacts / "drafter")}
    for arm, (target, drafter) in arms.items():
        loaded = load_model(target, torch.float32)
        tokenizer = load_tokenizer(target)
        prompts = build_task(WordProblemsConfig(), 0, tokenizer).prompts(977, size.measured)
        requests = [Request(index, index, prompt.tokens) for index, prompt in enumerate(prompts)]
        measurement = DrafterMeasurement(loaded, end_tokens(loaded, tokenizer), requests, Sampling(max_new_tokens=LONGEST, seed=977))
        weights = load_drafter_folder(drafter, loaded.config, drafter_kind(drafter))
        found[arm] = round(measurement.measure(weights, CHAIN).accept_length, 4)
    return found
