"""The phases of a step: how long they take on average, and how much of the rollout workers only wait."""

from collections.abc import Mapping, Sequence

import numpy as np

from dashboard.analysis.series import finite
from longtail.schemas.comparison import AlignedMetric
from longtail.schemas.telemetry import Series

EVALUATION = "evaluation"
"""A phase that not every step has: a mean over steps says little about it."""
PHASES = ("rollout", "reward", "inference", "update", "sync", EVALUATION)


def phase_means(metrics: Sequence[AlignedMetric], run_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean seconds of a step by phase and run, over the steps that all runs have."""
    found = {metric.key.removeprefix("phase/"): metric for metric in metrics if metric.key.startswith("phase/")}
    usual = [name for name in PHASES if name in found and name != EVALUATION]
    return {name: means for name in usual if (means := _means(found[name], run_ids))}


def share_of_rollout(metrics: Mapping[str, Series], key: str, workers: int) -> Series:
    """A series of worker seconds by what all workers had in the rollout of the same step, without those of which that is not known."""
    series, rollout = metrics.get(key, Series()), dict(finite(metrics.get("phase/rollout", Series())))
    points = [(step, seconds / (workers * rollout[step])) for step, seconds in finite(series) if rollout.get(step, 0.0) > 0]
    return Series(steps=[int(step) for step, _ in points], values=[share for _, share in points], width=series.width)


def _means(metric: AlignedMetric, run_ids: Sequence[str]) -> dict[str, float]:
    """Empty if there is no step that all have."""
    rows = zip(*(metric.values[run_id] for run_id in run_ids), strict=True)
    shared = [row for row in rows if None not in row]
    return dict(zip(run_ids, np.mean(shared, axis=0).tolist(), strict=True)) if shared else {}
