"""Runs side by side: any metric over steps or over training time. Keys of ``names`` are run ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from dashboard.analysis.series import Points, smoothed
from dashboard.charts.theme import add_curve, figure, height_for_curves, label, line, range_mode
from dashboard.charts.time_axis import time_unit
from longtail.schemas.comparison import AlignedMetric

TITLES: Mapping[str, str] = {
    "reward_mean": "mean reward",
    "step_seconds": "seconds per step",
    "accept_length": "tokens per target pass",
    "tokens_per_second": "tokens per second",
    "prompt_tokens": "tokens per prompt",
    "response_tokens": "tokens per response",
    "idle_seconds": "seconds that workers waited",
    "trained_seconds": "seconds that trained the drafter",
}
NAMES: Mapping[str, str] = {"accept_length": "Accept length"}
"""Of those that have a name of their own beside what is counted."""
FROM_ZERO = TITLES.keys() - {"reward_mean"}
"""Amounts, of which twice as much is to be seen as such."""
BEYOND = 2**31


@dataclass(frozen=True)
class CurveOptions:
    """How curves are drawn: over training time instead of steps, as means over ``window`` steps, on logarithmic axes."""

    over_time: bool = False
    window: int = 1
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class TrainingClock:
    """Training time of a run: ``seconds[i]`` are over when ``done[i]`` steps are done. Pauses and restarts do not count."""

    done: Sequence[float]
    seconds: Sequence[float]

    @classmethod
    def of(cls, metric: AlignedMetric, run_id: str) -> "TrainingClock":
        """From the run's ``step_seconds``."""
        spans = zip(metric.steps, _ends(metric), metric.values[run_id], strict=True)
        known = [(begin, end, value) for begin, end, value in spans if value is not None]
        seconds = np.cumsum([value * (end - begin) for begin, end, value in known]).tolist()
        return cls([float(known[0][0]) if known else 0.0, *(float(end) for _, end, _ in known)], [0.0, *seconds])

    def at(self, done: float) -> float:
        return float(np.interp(done, self.done, self.seconds))


def metric_title(key: str) -> str:
    """What is known of a metric in words, else its key."""
    return NAMES.get(key) or TITLES.get(key, "").capitalize() or key


def comparison_curves(
    metric: AlignedMetric, names: Mapping[str, str], view: CurveOptions, clocks: Mapping[str, TrainingClock]
) -> go.Figure:
    """A line for each run; over training time only of runs that have a clock."""
    lines = {run_id: curve_points(metric, run_id, view, clocks.get(run_id)) for run_id in names}
    latest = max((x for points in lines.values() for x, _ in points), default=0.0)
    scale, unit = time_unit(latest)
    x = f"training time ({unit})" if view.over_time else "steps done" if view.log_x else "step"
    is_phase = metric.key.startswith("phase/")
    y = "seconds per step" if is_phase else TITLES.get(metric.key, label(metric.key))
    chart = figure(x, y, height_for_curves(len(names)))
    for index, (run_id, points) in enumerate(lines.items()):
        scaled = [(x / scale if view.over_time else x, value) for x, value in points]
        add_curve(chart, scaled, name=label(names[run_id]), line=line(index), hovertemplate="%{y:.4g}")
    as_drawn = range_mode(value for points in lines.values() for _, value in points)
    chart.update_layout(showlegend=True).update_yaxes(rangemode="tozero" if metric.key in FROM_ZERO or is_phase else as_drawn)
    chart.update_xaxes(type="log" if view.log_x else "linear")
    return chart.update_yaxes(type="log" if view.log_y else "linear")


def curve_points(metric: AlignedMetric, run_id: str, view: CurveOptions, clock: TrainingClock | None) -> Points:
    """A mean over a span of steps stands in its middle, or at the time when it was over."""
    if view.over_time and clock is None:
        return []
    spans = zip(metric.steps, _ends(metric), metric.values.get(run_id, ()), strict=False)
    known = [(clock.at(end) if view.over_time and clock else (begin + end - 1) / 2 + view.log_x, value) for begin, end, value in spans]
    return smoothed([(x, value) for x, value in known if value is not None], round(view.window / metric.span))


def _ends(metric: AlignedMetric) -> list[int]:
    """By span, the step after its last one. Spans before a multiple of their width are shorter."""
    return [min(step + metric.span, after) for step, after in zip(metric.steps, [*metric.steps[1:], BEYOND], strict=True)]
