"""``bench spot``: what idle workers make of the tail, in real runs of two workers with a core and a thread each (TLT sections 3 and 4)."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml

from engine.bench.bed import Bed
from engine.config import SpeculationConfig
from engine.drafter.evaluate import CHAIN, Bench
from engine.drafter.export import load_drafter_folder
from engine.errors import LongtailError
from engine.events import AnyEvent, DrafterTrained, StepFinished, read
from engine.models.load import load_model
from engine.rollout.base import Sampling

STANDSTILL = 1e-12  # a learning rate at which training costs what it costs and changes nothing, so that nothing is published
CHAINS_ONLY = {"strategies": [CHAIN.model_dump()], "tuner": {"name": "fixed"}, "suffix": {"enabled": False}, "threshold": 4096}
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


FULL = Size(steps=18, random_steps=10, timed_steps=8, pairs=3, prompts_per_step=8, max_new_tokens=1024, evaluated_prompts=64)
QUICK = Size(steps=3, random_steps=3, timed_steps=3, pairs=1, prompts_per_step=4, max_new_tokens=256, evaluated_prompts=24)


def run(quick: bool, model: str) -> dict[str, Any]:
    """Runs adaptive, from a random drafter, and in turns with and without training of a drafter that stays the same."""
    size = QUICK if quick else FULL
    with TemporaryDirectory(prefix="longtail-bench-") as folder:
        runs = _Runs(Path(folder), model, size)
        adaptive = runs.run("adaptive", size.steps)
        random = runs.run("random", size.random_steps, drafter={"path": None}, speculation=CHAINS_ONLY)
        return {
            "facts": Bed(model).facts() | {"workers": 2},
            "harvest": _harvest(adaptive),
            "harvest_by_step": [_harvest([step]) for step in _steps(adaptive)],
            **_timed(runs, size),
            **_accept_lengths(Path(folder) / "adaptive", model, size),
            "accept_by_step": _by_step(adaptive),
            "from_random_accept": _by_step(random),
            "published": {"adaptive": _published(adaptive), "random": _published(random)},
            "mix_distance": [one.mix_distance for one in _sessions(adaptive)],
        }


class _Runs:
    """Runs of the engine, each in a process and a folder of its own."""

    def __init__(self, folder: Path, model: str, size: Size) -> None:
        self._folder, self._model, self._size = folder, model, size

    def run(self, name: str, steps: int, drafter: Mapping[str, Any] | None = None, **sections: Any) -> list[AnyEvent]:
        """All events of a run of ``steps`` RL steps; LongtailError with its last words if it fails."""
        out = self._folder / name
        out.mkdir()
        (out / "config.yaml").write_text(yaml.safe_dump(self._config(steps, drafter or {}) | sections), encoding="utf-8")
        command = [sys.executable, "-m", "engine", "run", str(out / "config.yaml"), "--out", str(out)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise LongtailError(f"the run {name} failed: {done.stderr[-2000:]}")
        events = list(read(out / "events.jsonl"))
        print(f"{name}: {[round(step.seconds, 2) for step in _steps(events)]} s a step", flush=True)
        return events

    def _config(self, steps: int, drafter: Mapping[str, Any]) -> dict[str, Any]:
        size = self._size
        return {
            "seed": 1,
            "model": {"path": self._model},
            "task": {"name": "countdown", "four_numbers": 0.25},
            "algorithm": {"steps": steps, "prompts_per_step": size.prompts_per_step, "group_size": 4, "kl_coefficient": 0.0},
            "rollout": {"max_prompt_tokens": 64, "max_new_tokens": size.max_new_tokens},
            "drafter": {"spot": {"tokens_per_microbatch": 512}} | dict(drafter),
            "cluster": {"workers": 2},
        }


def _timed(runs: _Runs, size: Size) -> dict[str, Any]:
    """``step_time_ratio``: median over steps of with / without training; the same seed and drafter give the same responses. The first
    steps warm up. ``stop_latency_s``: the longest that a rollout's results waited for after its end, the last rewards included."""
    ratios: list[float] = []
    latencies: list[float] = []
    microsteps: list[float] = []
    spot = {"tokens_per_microbatch": 512}
    for pair in range(size.pairs):
        training = runs.run(f"training {pair}", size.timed_steps, drafter={"spot": spot | {"learning_rate": STANDSTILL}})
        without = runs.run(f"without {pair}", size.timed_steps, drafter={"spot": spot | {"enabled": False}})
        ratios += [one.seconds / other.seconds for one, other in zip(_steps(training)[1:], _steps(without)[1:], strict=True)]
        latencies += [step.phases["reward"] for step in _steps(training) if step.metrics["trained_seconds"]]
        trained = {step.step: step.metrics["trained_seconds"] for step in _steps(training)}
        microsteps += [trained[session.step] / session.microsteps for session in _sessions(training)]
    return {
        "step_time_ratio": round(median(ratios), 4),
        "step_time_ratios": [round(ratio, 3) for ratio in ratios],
        "stop_latency_s": round(max(latencies), 4),
        "microstep_s": round(median(microsteps), 4),
    }


def _accept_lengths(out: Path, model: str, size: Size) -> dict[str, Any]:
    """On fresh prompts: the adapted and the first drafter with the updated target, and the first one with the first target."""
    bed = Bed(model, torch.float32)
    requests = bed.requests(size.evaluated_prompts, seed=77)
    sampling = Sampling(max_new_tokens=size.max_new_tokens, seed=77)
    base = Bench(bed.model, bed.end_tokens, requests, sampling)
    updated = Bench(load_model(out / "artifacts" / "policy", torch.float32).to(bed.device), bed.end_tokens, requests, sampling)  # type: ignore[arg-type]
    first, adapted = bed.trained_drafter(), load_drafter_folder(out / "artifacts" / "drafter", bed.model.config)
    arms = {"adaptive": (updated, adapted), "static": (updated, first), "base": (base, first)}
    found = {
        shape: {name: bench.measure(weights, strategy).accept_length for name, (bench, weights) in arms.items()}
        for shape, strategy in EVALUATED.items()
    }
    return {**{f"accept_{name}": length for name, length in found["tree"].items()}, "accept_chain": found["chain"]}


def _steps(events: list[AnyEvent]) -> list[StepFinished]:
    return [event for event in events if isinstance(event, StepFinished)]


def _sessions(events: list[AnyEvent]) -> list[DrafterTrained]:
    return [event for event in events if isinstance(event, DrafterTrained)]


def _published(events: list[AnyEvent]) -> int:
    """Sessions whose drafter was better."""
    return sum(session.published for session in _sessions(events))


def _harvest(events: list[Any]) -> float:
    """The share of idle worker-seconds spent training."""
    steps = _steps(events)
    idle = sum(step.metrics["idle_seconds"] for step in steps)
    return round(sum(step.metrics["trained_seconds"] for step in steps) / idle, 4) if idle else 0.0


def _by_step(events: list[AnyEvent]) -> list[float]:
    return [round(step.metrics["accept_length"], 3) for step in _steps(events)]
