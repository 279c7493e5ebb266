"""Means of several series over the same steps, of which some come whole and some as envelopes."""

import pytest

from dashboard.analysis.series import extents, stacked
from longtail.schemas.telemetry import Series


def envelope(steps: int, width: int, value: float, singles: int = 0) -> Series:
    """Buckets whose values differ, and behind them single points."""
    whole, last = [*range(0, steps, width)], [*range(steps, steps + singles)]
    values = [value] * (len(whole) + singles)
    low, high = [*[value - 1] * len(whole), *[value] * singles], [*[value + 1] * len(whole), *[value] * singles]
    return Series(steps=[*whole, *last], values=values, low=low, high=high, width=width)


def test_a_sparse_series_that_comes_whole_is_not_what_the_others_are_measured_by() -> None:
    """Of 8,000 steps the evaluations are more points than the rollouts, which come in buckets."""
    rollout, evaluation = envelope(8000, 16, 10.0), Series(steps=[*range(0, 8000, 10)], values=[5.0] * 800)
    _, means = stacked({"rollout": rollout, "evaluation": evaluation}, 400)
    assert means["rollout"] == pytest.approx([10.0] * len(means["rollout"]))
    assert sum(means["evaluation"]) / len(means["evaluation"]) == pytest.approx(0.5)


def test_the_single_points_behind_an_envelope_are_one_step_each() -> None:
    line = envelope(16, 8, 10.0, singles=3)
    assert extents(line) == [8, 8, 1, 1, 1]
    assert extents(envelope(16, 8, 10.0)) == [8, 8]
    assert extents(Series(steps=[0, 1, 2], values=[1.0, 2.0, 3.0])) == [1, 1, 1]
