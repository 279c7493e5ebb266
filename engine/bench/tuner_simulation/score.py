"""How near a tuner comes to one who knows in advance what drafts and steps bring."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from engine.bench.tuner_simulation.cases import Case
from engine.bench.tuner_simulation.drafts import Skill, Text
from engine.bench.tuner_simulation.rollout import Chooser, Rollout, best_arm
from engine.config import SpeculationConfig
from engine.speculation.strategy import OFF, Context, Strategy
from engine.speculation.tuner.interface import Tuner

ARMS = tuple(Strategy.of(strategy) for strategy in SpeculationConfig().strategies)
STEPS = 4096


@dataclass
class Tuned:
    """Has a tuner choose."""

    tuner: Tuner

    def choose(self, context: Context, skill: Skill) -> Strategy:  # noqa: ARG002
        return self.tuner.select(context)

    def learn(self, strategy: Strategy, context: Context, accepted: Sequence[int], seconds: float) -> None:
        self.tuner.record(strategy, context, accepted, seconds)


@dataclass
class Oracle:
    """Chooses the fastest arm of the moment, or always one."""

    best: Callable[[Context, Skill], Strategy]

    def choose(self, context: Context, skill: Skill) -> Strategy:
        return self.best(context, skill)

    def learn(self, strategy: Strategy, context: Context, accepted: Sequence[int], seconds: float) -> None:
        pass


def score(case: Case, build: Callable[[Case, int], Chooser], seeds: int) -> float:
    """The oracle's seconds over those needed, in the mean over seeds."""
    return fmean(_oracle_seconds(case, seed) / sum(rollouts(case, build(case, seed), seed)) for seed in range(seeds))


def rollouts(case: Case, chooser: Chooser, seed: int) -> Iterator[float]:
    """Seconds of each rollout; the same texts, lengths and noise for all choosers."""
    for version, skill in enumerate(case.skills):
        rng = np.random.default_rng((zlib.crc32(case.name.encode()), seed, version))
        lengths = np.minimum(case.lengths(rng, case.requests), case.limit)
        text = Text(case.requests, int(lengths.max()), rng)
        factors = case.pace.factors(STEPS, rng)
        yield Rollout(case.costs, lengths, case.slots, text, skill, factors).run(chooser, version)


_known: dict[tuple[str, int], float] = {}


def _oracle_seconds(case: Case, seed: int) -> float:
    """Of one who takes the fastest arm of every moment, or plain decoding for a whole rollout if that is faster."""
    if (case.name, seed) not in _known:
        choosers = best_arm((OFF, *ARMS), case.costs), lambda *_: OFF
        seconds = [list(rollouts(case, Oracle(chooser), seed)) for chooser in choosers]
        _known[case.name, seed] = sum(map(min, zip(*seconds, strict=True)))
    return _known[case.name, seed]
