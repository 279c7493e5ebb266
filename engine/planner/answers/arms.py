"""The same run in every way that it can be run: plain, TLT, n-grams alone, and what can be done about the tail."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from engine.config import RunConfig, merged, parse
from engine.errors import ConfigError
from engine.planner.answers.basis import Basis
from engine.planner.simulation.run import SimulatedStep, Simulation

SIMULATED = 6
"""Steps of an arm, from the first on, at most; the last ones stand for all that follow."""
SETTLED = 2
"""Steps in which drafter and tuner find their way."""
NGRAMS = [{"drafter": "ngram", "depth": depth, "verify": depth} for depth in (8, 3)]
PLAIN: dict[str, Any] = {"speculation": {"enabled": False}, "drafter": {"pretrain_minutes": 0.0, "pretrain_responses": None}}
"""Without speculation there is no drafter to pretrain."""
CHANGES: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "TLT": {"speculation": {"enabled": True}},
    "n-grams only": {"speculation": {"enabled": True, "strategies": NGRAMS, "tuner": {"name": "goodput"}}},
    "TLT, longest first": {"speculation": {"enabled": True}, "rollout": {"scheduling": {"longest_first": True}}},
    "TLT, over-sampling": {"speculation": {"enabled": True}, "rollout": {"scheduling": {"over_sampling": 1.5, "partial": False}}},
    "TLT, partial rollouts": {
        "speculation": {"enabled": True},
        "rollout": {"scheduling": {"over_sampling": 1.5, "partial": True}},
        "algorithm": {"rollout_correction": 2.0},
    },
}


@dataclass(frozen=True)
class Arm:
    """Means of the settled steps in seconds; ``hours`` and ``dollars`` are those of the whole run."""

    name: str
    step_seconds: float
    phases: dict[str, float]
    checkpoint: float
    hours: float
    dollars: float
    idle_share: float
    accept_length: float
    unused_share: float
    strategies: dict[int, str]

    @property
    def rollout_share(self) -> float:
        return self.phases["rollout"] / self.step_seconds


def arms(basis: Basis) -> list[Arm]:
    """All that the configuration allows."""
    return [arm(basis.with_config(config), name) for name, config in _configurations(basis.config)]


def arm(basis: Basis, name: str = "as configured", steps: int = SIMULATED) -> Arm:
    """``basis``'s configuration as it is."""
    simulated = list(Simulation(_evaluated_within(basis.config, steps), basis.assumptions).steps(steps))
    return _mean(basis, name, simulated)


def _evaluated_within(config: RunConfig, steps: int) -> RunConfig:
    """At the last of them at the latest: an evaluation takes what it takes, however rare it is."""
    every = min(config.evaluation.every, steps)
    return config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"every": every})})


def changed(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    """``config`` with the fields that ``changes`` names; ConfigError if they do not go together."""
    return parse(merged(config.model_dump(mode="json"), changes))


def _configurations(config: RunConfig) -> Iterator[tuple[str, RunConfig]]:
    for name, changes in CHANGES.items():
        try:
            found = changed(config, changes)
        except ConfigError:  # such as over-sampling beside dynamic sampling
            continue
        yield name, found


def _mean(basis: Basis, name: str, simulated: list[SimulatedStep]) -> Arm:
    settled = simulated[SETTLED:] or simulated[-1:]
    usual = [key for key in settled[0].phases if key != "evaluation"]
    phases = {key: fmean(step.phases[key] for step in settled) for key in usual}
    evaluations = [step.phases["evaluation"] for step in simulated if "evaluation" in step.phases]
    config = basis.config
    every, saved = config.evaluation.every, basis.assumptions.phases.checkpoint / config.checkpoint.every
    if every:
        phases["evaluation"] = fmean(evaluations) / every
    seconds = sum(phases.values()) + saved
    hours = seconds * config.algorithm.steps / 3600
    workers = basis.assumptions.workers
    waiting = fmean(step.tail.seconds("IDLE", "TRAINING") / (workers * step.rollout_end) for step in settled)
    unused = sum(step.unused for step in settled) / sum(int(step.generated.sum()) for step in settled)
    last = settled[-1]
    shown = [batch for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256) if batch < len(last.choices)]
    return Arm(
        name,
        seconds,
        phases,
        saved,
        hours,
        hours * basis.machines.dollars_per_hour,
        waiting,
        fmean(step.accept_length for step in settled),
        unused,
        {batch: last.choices[batch].label for batch in shown},
    )
