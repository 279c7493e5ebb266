"""``bench spot``: what idle workers make of the tail, in real runs of two workers with a core and a thread each (TLT sections 3 and 4)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine.bench import data_mix
from engine.bench.runs import harvest, metric, run_engine, sessions, steps
from engine.bench.testbed import Bed
from engine.config import SpeculationConfig
from engine.drafter.evaluate import CHAIN, DrafterMeasurement
from engine.drafter.export import load_drafter_folder
from engine.events import AnyEvent, DrafterTrained
from engine.models.load import load_model
from engine.rollout.interface import Sampling

STANDSTILL = 1e-12  # a learning rate at which training costs what it costs and changes nothing, so that nothing is published
MOVING = 1e-4  # of the policy: in some 20 steps it leaves the first drafter well behind
CHAINS_ONLY = {"strategies": [CHAIN.model_dump()], "tuner": {"name": "fixed"}, "suffix": {"enabled": False}, "threshold": 4096}
SPOT = {"tokens_per_microbatch": 512}
EVALUATED = {"tree": SpeculationConfig().strategies[0], "chain": CHAIN}


@dataclass(frozen=True)
class Size:
    """RL steps of the adaptive run, of those from a random drafter, and of each timed one, of which there are ``pairs``."""

    steps: int
    random_steps: int
    timed_steps: int
    pairs: int
    prompts_per_step: int
    max_new_tokens: int
    evaluated_prompts: int


FULL = Size(steps=24, random_steps=10, timed_steps=8, pairs=6, prompts_per_step=8, max_new_tokens=1024, evaluated_prompts=64)
QUICK = Size(steps=3, random_steps=3, timed_steps=3, pairs=1, prompts_per_step=4, max_new_tokens=256, evaluated_prompts=24)


def run(quick: bool, model: str) -> dict[str, Any]:
    """Runs adaptive, from a random drafter, and in turns with and without training of a drafter that stays the same."""
    size = QUICK if quick else FULL
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        run_steps = partial(_run, Path(folder), model, size)
        adaptive = run_steps("adaptive", size.steps)
        random = run_steps("random", size.random_steps, drafter={"path": None}, speculation=CHAINS_ONLY)
        return {
            "facts": Bed(model).facts() | {"workers": 2},
            "harvest": harvest(steps(adaptive)),
            "harvest_by_step": [harvest([step]) for step in steps(adaptive)],
            **_timed(run_steps, size),
            **_accept_lengths(Path(folder) / "adaptive", model, size),
            "accept_by_step": metric(adaptive, "accept_length"),
            "recovered": recovered(sessions(adaptive)),
            "from_random_accept": metric(random, "accept_length"),
            "published": {
                "adaptive": sum(session.published for session in sessions(adaptive)),
                "random": sum(session.published for session in sessions(random)),
            },
            "data": data_mix.compared(Bed(model), quick),
            "mix_distance": [one.mix_distance for one in sessions(adaptive)],
        }


def _run(
    folder: Path, model: str, size: Size, name: str, count: int, drafter: Mapping[str, Any] | None = None, **sections: Any
) -> list[AnyEvent]:
    """All events of a run of ``count`` RL steps, in a folder of its own."""
    config = {
        "seed": 1,
        "model": {"path": model},
        "task": {"name": "countdown", "four_numbers": 0.25},
        "algorithm": {
            "steps": count,
            "prompts_per_step": size.prompts_per_step,
            "group_size": 4,
            "kl_coefficient": 0.0,
            "learning_rate": MOVING,
        },
        "rollout": {"max_prompt_tokens": 64, "max_new_tokens": size.max_new_tokens},
        "drafter": {"spot": SPOT} | dict(drafter or {}),
        "cluster": {"workers": 2},
    }
    return run_engine(folder / name, config | sections, artifacts=True)


def recovered(found: Sequence[DrafterTrained]) -> dict[str, list[float]]:
    """For each session but the first, what the engines' drafter has of each accuracy after it, as a share of what it had after the one
    before; newer held-out responses and an updated target are part of the difference."""
    shares: dict[str, list[float]] = {}
    for name in ("top1", "top3", "held_out"):
        kept = [getattr(session, f"{name}_{'after' if session.published else 'before'}") for session in found]
        shares[name] = [round(now / before, 3) for before, now in pairwise(kept)]
    return shares


def _timed(run_steps: Callable[..., list[AnyEvent]], size: Size) -> dict[str, Any]:
    """``step_time_ratio``: median over steps of with / without training; the same seed and drafter give the same responses, but not the
    same choices of the tuner. The first steps warm up; who runs first changes from pair to pair. ``stop_latency_s``: the longest that a
    rollout's results waited for after its end, the last rewards included."""
    ratios: list[float] = []
    latencies: list[float] = []
    microsteps: list[float] = []
    always = {"learning_rate": STANDSTILL, "trigger": {"every": 1}}
    arms: dict[str, dict[str, Any]] = {"training": always, "without": {"enabled": False}}
    for pair in range(size.pairs):
        order = sorted(arms, reverse=pair % 2 > 0)
        found = {arm: run_steps(f"{arm} {pair}", size.timed_steps, drafter={"spot": SPOT | arms[arm]}) for arm in order}
        training, without = found["training"], found["without"]
        ratios += [one.seconds / other.seconds for one, other in zip(steps(training)[1:], steps(without)[1:], strict=True)]
        latencies += [step.phases["reward"] for step in steps(training) if step.metrics["trained_seconds"]]
        trained = {step.step: step.metrics["trained_seconds"] for step in steps(training)}
        microsteps += [trained[session.step] / session.microsteps for session in sessions(training)]
    return {
        "step_time_ratio": round(median(ratios), 4),
        "step_time_range": [round(min(ratios), 3), round(max(ratios), 3)],
        "step_time_ratios": [round(ratio, 3) for ratio in ratios],
        "stop_latency_s": round(max(latencies), 4),
        "microstep_s": round(median(microsteps), 4),
    }


def _accept_lengths(out: Path, model: str, size: Size) -> dict[str, Any]:
    """On fresh prompts: the adapted and the first drafter with the updated target, and the first one with the first target."""
    bed = Bed(model, torch.float32)
    requests = bed.requests(size.evaluated_prompts, seed=77)
    sampling = Sampling(max_new_tokens=size.max_new_tokens, seed=77)
    base = DrafterMeasurement(bed.model, bed.end_tokens, requests, sampling)
    updated = DrafterMeasurement(load_model(out / "artifacts" / "policy", torch.float32).to(bed.device), bed.end_tokens, requests, sampling)  # type: ignore[arg-type]
    first, adapted = bed.trained_drafter(), load_drafter_folder(out / "artifacts" / "drafter", bed.model.config)
    arms = {"adaptive": (updated, adapted), "static": (updated, first), "base": (base, first)}
    found = {
        shape: {name: bench.measure(weights, strategy).accept_length for name, (bench, weights) in arms.items()}
        for shape, strategy in EVALUATED.items()
    }
    return {**{f"accept_{name}": length for name, length in found["tree"].items()}, "accept_chain": found["chain"]}
