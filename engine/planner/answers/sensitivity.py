"""Which input matters most, and where TLT stops paying."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine.config import RunConfig
from engine.planner.answers.arms import arm, changed
from engine.planner.answers.basis import MOST_RESPONSES, Basis
from engine.planner.simulation.response_lengths import Lengths, ResponseLengths
from engine.planner.simulation.run import scaled

STEPS = 4
"""Simulated at each factor of a break-even, of which only the speed-up is looked at."""
RANGE, HALVINGS = 5.0, 6
"""Powers of two between which it is looked for where TLT stops paying, and how often that range is halved."""
MOST_PROMPTS = 65_536
"""Of a step, in any configuration."""
PAYS = 1.02
"""Speed-up below which TLT does not pay."""


@dataclass(frozen=True)
class Influence:
    """Seconds of a step with half of the input, and with twice as much."""

    input: str
    half: float
    twice: float

    @property
    def range(self) -> float:
        return abs(self.twice - self.half)


@dataclass(frozen=True)
class BreakEven:
    """TLT pays while the input is above or below ``value``, as ``pays`` says; None: it pays everywhere, or nowhere, in the range."""

    input: str
    value: float | None
    pays: str


@dataclass(frozen=True)
class Stretched:
    """``lengths`` times ``factor``."""

    lengths: ResponseLengths
    factor: float

    def draw(self, step: int, positions: Lengths, group_size: int, limit: int) -> Lengths:
        drawn = self.lengths.draw(step, positions, group_size, limit)
        return np.clip(np.round(drawn * self.factor), 1, limit).astype(np.int64)

    def __str__(self) -> str:
        return f"{self.lengths}, times {self.factor:g}"


Varied = Callable[[Basis, float], Basis]


def longer(basis: Basis, factor: float) -> Basis:
    """With responses ``factor`` times as long, up to the limit, which stays."""
    return replace(basis, assumptions=replace(basis.assumptions, lengths=Stretched(basis.assumptions.lengths, factor)))


def wider(basis: Basis, factor: float) -> Basis:
    """With ``factor`` times as many prompts in a step: at least one for each worker, at most what is simulated."""
    algorithm = basis.config.algorithm
    most = max(algorithm.prompts_per_step, min(MOST_PROMPTS, MOST_RESPONSES // algorithm.group_size))
    prompts = min(max(basis.assumptions.workers, round(algorithm.prompts_per_step * factor)), most)
    return basis.with_config(changed(basis.config, {"algorithm": {"prompts_per_step": prompts}}))


def better(basis: Basis, factor: float) -> Basis:
    """With a first draft token that misses 1 / ``factor`` times as often."""
    given, calibration = basis.assumptions, basis.assumptions.calibration
    accepted = {name: 1 - min(0.98, (1 - getattr(calibration.acceptance, name)) / factor) for name in ("first", "static")}
    acceptance = calibration.acceptance.model_copy(update=accepted)
    firsts = tuple(1 - min(0.98, (1 - first) / factor) for first in given.firsts)
    own = calibration.model_copy(update={"acceptance": acceptance})
    return replace(basis, assumptions=replace(given, calibration=own, firsts=firsts))


def worse(basis: Basis, factor: float) -> Basis:
    """With a first draft token that misses ``factor`` times as often."""
    return better(basis, 1 / factor)


def faster_memory(basis: Basis, factor: float) -> Basis:
    """With decode passes that take 1 / ``factor`` as long."""
    given = basis.assumptions
    plain = scaled(given.plain, 1 / factor) if given.plain else None
    return replace(basis, assumptions=replace(given, costs=scaled(given.costs, 1 / factor), plain=plain))


def faster_update(basis: Basis, factor: float) -> Basis:
    """With inference and update that take 1 / ``factor`` as long."""
    phases = basis.assumptions.phases
    names = ("inference", "inference_square", "update", "update_square")
    quicker = replace(phases, **{name: getattr(phases, name) / factor for name in names})
    return replace(basis, assumptions=replace(basis.assumptions, phases=quicker))


INPUTS: dict[str, Varied] = {
    "response length": longer,
    "prompts a step": wider,
    "first drafts that miss": worse,
    "speed of decoding": faster_memory,
    "speed of the update": faster_update,
}


def influences(basis: Basis) -> list[Influence]:
    """Of the configuration as it is, the largest first."""
    found = [Influence(name, *(arm(vary(basis, by)).step_seconds for by in (0.5, 2.0))) for name, vary in INPUTS.items()]
    return sorted(found, key=lambda each: -each.range)


def break_evens(basis: Basis) -> list[BreakEven]:
    """By bisection of a factor between 1/32 and 32."""
    return [
        _break_even("mean response length in tokens", basis, longer, mean_length),
        _break_even("requests of a worker", basis, wider, _requests),
        _break_even("acceptance of a first draft token", basis, better, _first),
    ]


def mean_length(basis: Basis) -> float:
    """Tokens of a response."""
    return float(basis.assumptions.lengths.draw(0, np.arange(64), 8, basis.config.rollout.max_new_tokens).mean())


def _requests(basis: Basis) -> float:
    algorithm = basis.config.algorithm
    return algorithm.prompts_per_step * algorithm.group_size / basis.assumptions.workers


def _first(basis: Basis) -> float:
    return basis.assumptions.firsts[-1] if basis.assumptions.firsts else basis.assumptions.calibration.acceptance.first


def speedup(basis: Basis) -> float:
    """Of TLT over plain decoding."""
    plain, tlt = (basis.with_config(_speculating(basis.config, on)) for on in (False, True))
    return arm(plain, steps=STEPS).step_seconds / arm(tlt, steps=STEPS).step_seconds


def _speculating(config: RunConfig, on: bool) -> RunConfig:
    return config.model_copy(update={"speculation": config.speculation.model_copy(update={"enabled": on, "rest": 0})})


def _break_even(name: str, basis: Basis, vary: Varied, value: Callable[[Basis], float]) -> BreakEven:
    low, high = -RANGE, RANGE
    ends = [speedup(vary(basis, 2.0**power)) > PAYS for power in (low, high)]
    if ends[0] == ends[1]:
        return BreakEven(name, None, "everywhere" if ends[0] else "nowhere")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        pays_there = speedup(vary(basis, 2.0**middle)) > PAYS
        low, high = (middle, high) if pays_there == ends[0] else (low, middle)
    return BreakEven(name, value(vary(basis, 2.0 ** ((low + high) / 2))), "below" if ends[0] else "above")
