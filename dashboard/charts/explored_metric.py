"""One series of a run as chosen: over steps, training time or tokens, smoothed, on logarithmic axes."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from dashboard.analysis.series import band, extents, finite, smoothed, thinned
from dashboard.charts.theme import BLUE, add_band, add_curve, figure, label, range_mode
from longtail.schemas.telemetry import Series

SMALL = 230


@dataclass(frozen=True)
class RunningTotal:
    """What a run has come to, in ``unit``, when ``done`` steps are done: seconds, or tokens. Steps whose amount is ``unknown`` add
    nothing."""

    done: tuple[float, ...]
    totals: tuple[float, ...]
    unit: str
    unknown: int

    @classmethod
    def of(cls, series: Series, unit: str) -> "RunningTotal":
        """Of a series of amounts; of an envelope each bucket counts as often as it has steps."""
        ends = [*series.steps[1:], *(step + series.width for step in series.steps[-1:])]
        amounts = [*zip(series.values, extents(series), strict=True)]
        sums = np.cumsum([(value or 0.0) * size for value, size in amounts]).tolist()
        known = sum(size for value, size in amounts if value is not None)
        return cls((float(series.steps[0]), *map(float, ends)), (0.0, *sums), unit, ends[-1] - series.steps[0] - known)

    def at(self, step: float) -> float:
        return float(np.interp(step, self.done, self.totals))


@dataclass(frozen=True)
class ExploreOptions:
    """``window``: means over so many steps; ``total``: what the x-axis counts instead of steps."""

    window: int = 1
    log_x: bool = False
    log_y: bool = False
    total: RunningTotal | None = None


def explored_metric(key: str, series: Series, options: ExploreOptions) -> go.Figure | None:
    """None if it has no value, or none that can stand on a logarithmic axis."""
    points = thinned(finite(series))
    if not points or (options.log_y and max(value for _, value in points) <= 0):
        return None
    total = options.total
    chart = figure(total.unit if total else "steps done" if options.log_x else "step", "", SMALL)

    def place(step: float) -> float:
        return total.at(step + 1) if total else step + options.log_x

    if around := band(series):
        add_band(chart, [(place(step), low, high) for step, low, high in around], BLUE)
    span = (points[-1][0] - points[0][0]) / max(len(points) - 1, 1) or 1.0
    curve = [(place(step), value) for step, value in smoothed(points, round(options.window / span))]
    add_curve(chart, curve, name=label(key), line={"color": BLUE, "width": 2}, hovertemplate="%{y:.4g}", showlegend=False)
    chart.update_xaxes(type="log" if options.log_x else "linear")
    return chart.update_yaxes(type="log" if options.log_y else "linear", rangemode=range_mode(value for _, value in points))
