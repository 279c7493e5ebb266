"""A run's recorded steps as a folder that the planner reads: its events, as far as a plan needs them, and its configuration."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from engine.checkpoint.run_folder import EVENTS
from engine.config import RunConfig
from engine.events import AnyEvent, ArmStatistics, RolloutFinished, RunStarted, Speculation, StepFinished
from longtail.schemas.telemetry import Series

SECONDS, PHASE, PROMPT = "step_seconds", "phase/", "prompt_tokens"
MOST_STEPS = 64
"""The last ones, as many as the planner takes."""


class LengthsOfStep(Protocol):
    @property
    def step(self) -> int: ...
    @property
    def lengths(self) -> list[int]: ...
    @property
    def truncated(self) -> int: ...


class SpeculationOfStep(Protocol):
    @property
    def step(self) -> int: ...
    @property
    def arms(self) -> Sequence[Any]: ...


def write_trace(
    folder: Path,
    config: RunConfig,
    lengths: Iterable[LengthsOfStep],
    speculation: Iterable[SpeculationOfStep],
    series: Mapping[str, Series],
) -> None:
    """``series`` has step_seconds, phase/... and prompt_tokens; what only some of the steps have is left out."""
    (folder / "config.yaml").write_text(config.model_dump_json(), encoding="utf-8")
    events: list[AnyEvent] = [_started(config)]
    events += [RolloutFinished(step=one.step, lengths=one.lengths, truncated=one.truncated) for one in lengths]
    events += [_speculation(one) for one in speculation]
    events += _steps(series)
    lines = (event.model_copy(update={"seq": seq}).model_dump_json() for seq, event in enumerate(events))
    (folder / EVENTS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _started(config: RunConfig) -> RunStarted:
    steps, workers = config.algorithm.steps, config.cluster.workers
    return RunStarted(first_step=0, steps=steps, workers=workers, model_parameters=0, device="", packages={})


def _speculation(one: SpeculationOfStep) -> Speculation:
    arms = [ArmStatistics.model_validate(arm if isinstance(arm, dict) else json.loads(arm.model_dump_json())) for arm in one.arms]
    return Speculation(step=one.step, arms=arms, drafted_by_position=[], accepted_by_position=[])


def _steps(series: Mapping[str, Series]) -> list[AnyEvent]:
    seconds = _values(series.get(SECONDS, Series()))
    phases = {key.removeprefix(PHASE): _values(found) for key, found in series.items() if key.startswith(PHASE)}
    prompts = {PROMPT: _values(series.get(PROMPT, Series()))}
    return [StepFinished(step=step, seconds=value, phases=_at(step, phases), metrics=_at(step, prompts)) for step, value in seconds.items()]


def _at(step: int, values: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Of those that have one there."""
    return {name: by_step[step] for name, by_step in values.items() if step in by_step}


def _values(series: Series) -> dict[int, float]:
    return {step: value for step, value in zip(series.steps, series.values, strict=True) if value is not None}
