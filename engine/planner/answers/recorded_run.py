"""A run that is over, as a plan takes it: lengths, acceptance, and what its phases took."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from engine.checkpoint.run_folder import EVENTS
from engine.errors import DataError
from engine.events import AnyEvent, ArmStatistics, RolloutFinished, RunStarted, Speculation, StepFinished, read
from engine.planner.calibration import Acceptance
from engine.planner.simulation.acceptance import accepted_tokens
from engine.speculation.strategy import Strategy

SHAPE = re.compile(r"off|(eagle|ngram) d\d{1,3} k\d{1,3} v\d{1,3}")
"""What ``str`` says of a strategy; the tuner of another engine may call them otherwise."""
MOST_STEPS = 64
"""The last ones: a plan does not get better by more, and all are simulated."""
MOST_WORKERS, MOST_TOKENS, MOST_SECONDS = 8192, 2**31, 10.0**9
"""Beyond these a recorded value is a mistake."""
CANDIDATES = np.linspace(0.02, 0.99, 98)
"""Probabilities of a first token that are tried to explain what was accepted."""


@dataclass(frozen=True)
class RecordedStep:
    """``lengths`` of its responses; seconds by ``phases``; requests drafted for, and drafts accepted, by strategy; ``arms``: the use of
    strategies by batch size. ``prompt``: tokens of one on average, None in a run that is too old to say so."""

    index: int
    seconds: float
    lengths: tuple[int, ...]
    phases: dict[str, float]
    drafted: dict[str, tuple[int, int]]
    prompt: float | None = None
    arms: tuple[ArmStatistics, ...] = ()

    def first(self, acceptance: Acceptance) -> float | None:
        """Probability of a first token by which as many of the learned drafter's drafts would be accepted; None if it drafted little."""
        used = [(strategy, counts) for name, counts in self.drafted.items() if (strategy := Strategy.named(name)).drafter == "eagle"]
        accepted = sum(counts[1] for _, counts in used)
        if sum(counts[0] for _, counts in used) < 32:
            return None
        off = [abs(sum(n * accepted_tokens(strategy, acceptance, p) for strategy, (n, _) in used) - accepted) for p in CANDIDATES]
        return float(CANDIDATES[int(np.argmin(off))])


@dataclass(frozen=True)
class RecordedRun:
    """``workers`` of its last attempt."""

    name: str
    workers: int
    steps: tuple[RecordedStep, ...]

    @property
    def settled(self) -> tuple[RecordedStep, ...]:
        """Without the first step, in which caches are filled, unless it is the only one."""
        return self.steps[1:] or self.steps

    @property
    def lengths(self) -> tuple[tuple[int, ...], ...]:
        return tuple(step.lengths for step in self.steps)

    @property
    def prompt(self) -> float | None:
        """Tokens of a prompt on average, if they were told."""
        told = [step.prompt for step in self.steps if step.prompt is not None and 0 < step.prompt < inf]
        return fmean(told) if told else None

    def firsts(self, acceptance: Acceptance) -> list[float]:
        """By step, filled up from its neighbours; none if the learned drafter was hardly used."""
        found = [step.first(acceptance) for step in self.steps]
        known = [first for first in found if first is not None]
        return [known[0] if first is None else first for first in _carried(found)] if known else []


def recorded_run(path: Path) -> RecordedRun:
    """Of a run folder, or of a file of events. DataError if it has no finished step."""
    file = path / EVENTS if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"trace: {path} is neither a run folder nor a file of events; give the folder that has events.jsonl")
    return of_events(read(file), path.name)


def of_events(events: Iterable[AnyEvent], name: str) -> RecordedRun:
    """A step that was repeated counts as it was the last time."""
    workers, lengths, finished = 1, dict[int, tuple[int, ...]](), dict[int, StepFinished]()
    arms: dict[int, tuple[ArmStatistics, ...]] = {}
    for event in events:
        if isinstance(event, RunStarted):
            workers = _within("workers", event.workers, 1, MOST_WORKERS)
        elif isinstance(event, RolloutFinished):
            lengths[event.step] = tuple(event.lengths)
        elif isinstance(event, Speculation):
            arms[event.step] = tuple(arm for arm in event.arms if SHAPE.fullmatch(arm.strategy) and _plausible(arm))
        elif isinstance(event, StepFinished):
            finished[event.step] = event
    steps = tuple(
        _step(finished[index], lengths[index], arms.get(index, ()))
        for index in sorted(finished.keys() & lengths.keys())
        if any(lengths[index]) and finished[index].phases.get("rollout", 0.0) > 0
    )[-MOST_STEPS:]
    if not steps:
        raise DataError(f"trace: {name} has no finished step; give a run that has at least one")
    return RecordedRun(name, workers, steps)


def _within(name: str, value: Any, least: float, most: float) -> Any:
    """DataError if it is not between these."""
    if not least <= value <= most:
        raise DataError(f"trace: {name} is {value}, and should be between {least:g} and {most:g}; give a run that was recorded whole")
    return value


def _plausible(arm: ArmStatistics) -> bool:
    return 0 < arm.pulls <= arm.requests < MOST_TOKENS and 0 <= arm.accepted < MOST_TOKENS and 0 <= arm.seconds < MOST_SECONDS


def _step(finished: StepFinished, lengths: tuple[int, ...], arms: tuple[ArmStatistics, ...]) -> RecordedStep:
    for name, seconds in finished.phases.items():
        _within(f"{name} of step {finished.step}", seconds, 0, MOST_SECONDS)
    _within(f"the longest response of step {finished.step}", max(lengths), 1, MOST_TOKENS)
    _within(f"the shortest response of step {finished.step}", min(lengths), 0, MOST_TOKENS)
    prompt = finished.metrics.get("prompt_tokens")
    return RecordedStep(finished.step, finished.seconds, lengths, finished.phases, _by_strategy(arms), prompt, arms)


def _by_strategy(arms: Iterable[ArmStatistics]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for arm in arms:
        requests, accepted = found[arm.strategy]
        found[arm.strategy] = requests + arm.requests, accepted + arm.accepted
    return dict(found)


def _carried(found: list[float | None]) -> list[float | None]:
    last: float | None = None
    carried: list[float | None] = []
    for first in found:
        last = last if first is None else first
        carried.append(last)
    return carried
