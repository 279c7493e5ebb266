"""Runs against a baseline. Pure functions over metric series, so that the arithmetic can be checked by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from backend.schemas.comparison import ComparedRun, ConfigDifference
from backend.schemas.runs import Run
from backend.schemas.telemetry import Series
from backend.services.run_values import flat

KEYS = ("step_seconds", "phase/rollout", "reward_mean", "accept_length", "trained_seconds", "idle_seconds")
LABELS = frozenset({"name"})
MISSING = object()

SeriesByKey = Mapping[str, Series]


class Measures(BaseModel):
    """The numbers of a ComparedRun."""

    steps: int
    seconds_per_step: float | None
    rollout_share: float | None
    rollout_speedup: float | None
    e2e_speedup: float | None
    reward_first: float | None
    reward_last: float | None
    reward: Series
    accept_length: float | None
    harvest: float | None


def compare(run: SeriesByKey, baseline: SeriesByKey) -> Measures:
    """``run`` against ``baseline`` over the steps that both have; none is left out."""
    steps = sorted(_steps(run) & _steps(baseline))
    quarter = max(len(steps) // 4, 1)
    seconds, rollout = _total(run, "step_seconds", steps), _total(run, "phase/rollout", steps)
    return Measures(
        steps=len(steps),
        seconds_per_step=_ratio(seconds, len(steps)),
        rollout_share=_ratio(rollout, seconds),
        rollout_speedup=_ratio(_total(baseline, "phase/rollout", steps), rollout),
        e2e_speedup=_ratio(_total(baseline, "step_seconds", steps), seconds),
        reward_first=_mean(run, "reward_mean", steps[:quarter]),
        reward_last=_mean(run, "reward_mean", steps[-quarter:]),
        reward=run.get("reward_mean", Series()),
        accept_length=_mean(run, "accept_length", steps[-quarter:]),
        harvest=_ratio(_total(run, "trained_seconds", steps), _total(run, "idle_seconds", steps)),
    )


def compared(run: Run, own: SeriesByKey, baseline: SeriesByKey) -> ComparedRun:
    return ComparedRun(run=run, **dict(compare(own, baseline)))


def config_diff(configs: Mapping[str, Mapping[str, Any]]) -> list[ConfigDifference]:
    """Dotted fields whose values are not equal in all ``configs`` (by run id). Lists count as one value."""
    leaves = {run_id: dict(flat(config)) for run_id, config in configs.items()}
    fields = {field: None for config in leaves.values() for field in config if field not in LABELS}
    return [
        ConfigDifference(field=field, values={run_id: config.get(field) for run_id, config in leaves.items()})
        for field in fields
        if any(config.get(field, MISSING) != next(iter(leaves.values())).get(field, MISSING) for config in leaves.values())
    ]


def _steps(run: SeriesByKey) -> set[int]:
    return set(run["step_seconds"].steps) if "step_seconds" in run else set()


def _values(run: SeriesByKey, key: str, steps: Sequence[int]) -> list[float]:
    series, wanted = run.get(key, Series()), set(steps)
    return [value for step, value in zip(series.steps, series.values, strict=True) if step in wanted and value is not None]


def _total(run: SeriesByKey, key: str, steps: Sequence[int]) -> float | None:
    values = _values(run, key, steps)
    return sum(values) if values else None


def _mean(run: SeriesByKey, key: str, steps: Sequence[int]) -> float | None:
    values = _values(run, key, steps)
    return sum(values) / len(values) if values else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
