"""``bench tail``: what can be done about a rollout's tail, each by itself and with TLT, in whole runs of as many updates, in turns.

Some of them change what is learned from, so that time alone does not tell which is best: the policies are compared, too.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from engine.bench.policy_distance import PolicyDistance
from engine.bench.runs import harvest, run_engine, steps
from engine.bench.testbed import machine
from engine.config import merged, parse
from engine.events import AnyEvent, StepFinished
from engine.models.load import load_tokenizer, resolve
from engine.rollout.interface import Sampling
from engine.tasks.registry import build_task

WAYS: dict[str, dict[str, Any]] = {
    "": {},
    "longest_first": {"longest_first": True},
    "over_sampling": {"over_sampling": 1.5},
    "partial": {"over_sampling": 1.5, "partial": True},
    "asynchronous": {"asynchronous": True},
}
PLAIN = {way or "plain": (way, False) for way in WAYS}
ARMS = PLAIN | {f"tlt_{way}" if way else "tlt": (way, True) for way in WAYS}
"""What is done about the tail, and whether it is TLT."""
OWN = ("accept_length", "idle_seconds", "stopped_responses", "unused_tokens", "stale_share", "staleness_max", "discarded_tokens")
RESPONSES, LONGEST = 64, 256
"""By which policies are compared."""

Events = Mapping[str, Sequence[AnyEvent]]
"""Those of one seed's runs, by arm."""


def run(quick: bool, model: str, folder: Path) -> dict[str, Any]:
    """``model`` with each seed: all arms in turn, every time with another one first; ``folder`` gets the runs. Of each arm:

    - ``step_s`` and ``rollout_s``: means over all steps and seeds; ``speedup``: of the whole run against plain, without evaluations, the
      median over seeds, and its range;
    - ``reward``: on validation prompts after the last update, the mean over seeds;
    - ``kl_to_plain``: see PolicyDistance, from the plain run of the same seed to this one, after the last update, the mean over seeds.
      ``kl_of_seeds`` is that between plain runs of different seeds, for comparison; None of a single seed.
    """
    seeds, count = ((1,), 3) if quick else ((1, 2, 3), 6)
    runs: list[Events] = []
    for turn, seed in enumerate(seeds):
        order = [*ARMS][turn % len(ARMS) :] + [*ARMS][: turn % len(ARMS)]
        runs.append({arm: run_engine(_of(folder, arm, seed), configuration(model, arm, seed, count), artifacts=True) for arm in order})
    kls, between = _distances(model, folder, seeds)
    arms = {arm: _summed(runs, arm) | {"kl_to_plain": round(fmean(kls[arm]), 6)} for arm in ARMS}
    print(table(arms), flush=True)
    facts = machine() | {"workers": 2, "model": model, "steps": count}
    return {"facts": facts, "seeds": seeds, "kl_of_seeds": between, "arms": arms}


def table(arms: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown, a row for each arm in the order of time: what it takes, and what it changes."""
    lines = ["| way | seconds a step | whole run | reward | distance from plain, nats a token |", "|---|---|---|---|---|"]
    for arm, found in sorted(arms.items(), key=lambda each: each[1]["step_s"]):
        name = arm.replace("_", " ").replace("tlt", "TLT")
        lines.append(f"| {name} | {found['step_s']:.2f} | {found['speedup']:.2f}x | {found['reward']:.2f} | {found['kl_to_plain']:.5f} |")
    return "\n".join(lines)


def configuration(model: str, arm: str, seed: int, count: int) -> dict[str, Any]:
    """That of one run."""
    way, speculates = ARMS[arm]
    shared: dict[str, Any] = {
        "seed": seed,
        "model": {"path": model},
        "task": {"name": "countdown", "four_numbers": 0.25},
        "algorithm": {"steps": count, "prompts_per_step": 8, "group_size": 4},
        "evaluation": {"every": count, "prompts": 32, "samples": 2},
        "rollout": {"max_prompt_tokens": 64, "max_new_tokens": 1024, "scheduling": WAYS[way]},
        "cluster": {"workers": 2},
    }
    return shared if speculates else merged(shared, {"speculation": {"enabled": False}})


def _of(folder: Path, arm: str, seed: int) -> Path:
    return folder / f"tail-{arm}-{seed}"


def _policy(folder: Path, arm: str, seed: int) -> Path:
    """That at the end of a run."""
    return _of(folder, arm, seed) / "artifacts" / "policy"


def _distances(model: str, folder: Path, seeds: Sequence[int]) -> tuple[dict[str, list[float]], float | None]:
    """From the plain policy of each seed to that of each arm, and the mean of those to the plain ones of the other seeds."""
    torch.set_num_threads(1)  # passes as small as these gain nothing by more, and on a busy machine they wait for each other
    task = build_task(parse(configuration(model, "plain", 0, 1)).task, 0, load_tokenizer(resolve(model)))
    prompts = [prompt.tokens for prompt in task.validation(RESPONSES)]
    found: dict[str, list[float]] = {arm: [] for arm in ARMS}
    between: list[float] = []
    for seed in seeds:
        distance = PolicyDistance(_policy(folder, "plain", seed), prompts, Sampling(max_new_tokens=LONGEST, seed=seed))
        others = [_policy(folder, "plain", other) for other in seeds if other != seed]
        distances = distance.to([*(_policy(folder, arm, seed) for arm in ARMS), *others])
        for arm, kl in zip(ARMS, distances, strict=False):
            found[arm].append(kl)
        between += distances[len(ARMS) :]
    return found, round(fmean(between), 6) if between else None


def _summed(runs: Sequence[Events], arm: str) -> dict[str, Any]:
    finished = [step for events in runs for step in steps(events[arm])]
    speedups = [_seconds(steps(events["plain"])) / _seconds(steps(events[arm])) for events in runs]
    means = {name: fmean(step.metrics[name] for step in finished) for name in OWN if name in finished[-1].metrics}
    return {
        "step_s": round(fmean(_seconds([step]) for step in finished), 3),
        "rollout_s": round(fmean(step.phases["rollout"] for step in finished), 3),
        "speedup": round(median(speedups), 3),
        "speedup_range": [round(min(speedups), 3), round(max(speedups), 3)],
        "reward": round(fmean(steps(events[arm])[-1].metrics["eval/reward"] for events in runs), 4),
        "response_tokens": round(fmean(step.metrics["response_tokens"] for step in finished), 1),
        "harvest": harvest(finished),
    } | {name: round(value, 4) for name, value in means.items()}


def _seconds(finished: Sequence[StepFinished]) -> float:
    """Without the evaluations."""
    return sum(step.seconds - step.phases.get("evaluation", 0.0) for step in finished)
