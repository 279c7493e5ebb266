"""Curves over steps of one or more runs: each step as a faint dot, or of many steps their range as a faint band, and a smoothed line."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dashboard.analysis.series import band, finite, smoothed, thinned
from dashboard.charts.theme import GREY, PURPLE, add_band, add_curve, color, dash, faded, figure, label
from longtail.schemas.telemetry import Series

SMALL = 210
ALL = "all drafts"
BROAD = 8
"""Of a curve that is seen on both sides of another one, which runs over it."""


def rewards(runs: Mapping[str, Series], window: int = 5) -> go.Figure:
    """Mean reward; keys are the names in the legend, ``window`` is in steps."""
    return _curves(runs, "mean reward", "%{y:.3f}", window).update_yaxes(rangemode="normal")


def accept_lengths(runs: Mapping[str, Series], window: int = 1) -> go.Figure:
    """Tokens that one pass of the target yields, its own included; a plain run is at 1 by definition."""
    chart = _curves(runs, "tokens per target pass", "%{y:.2f}", window)
    chart.update_traces(line={"width": BROAD, "color": PURPLE}, selector={"name": ALL})
    chart.data = sorted(chart.data, key=lambda trace: trace.name != ALL)  # beneath the curve of who drafts nearly everything
    chart.add_hline(y=1, line={"dash": "dot", "width": 1, "color": GREY}, annotation_text="plain decoding", annotation_position="top right")
    return chart


def values(runs: Mapping[str, Series], y: str = "value", *, from_zero: bool = False) -> go.Figure:
    """Any series side by side; keys are the names in the legend, ``y`` is what they measure."""
    return _curves(runs, y, "%{y:.4g}", 1).update_yaxes(rangemode="tozero" if from_zero else "normal")


def small(series: Series, y: str) -> go.Figure:
    """A series by itself, in a chart that has room beside others. With zero in it, what hardly moves is not seen to leap."""
    return values({y: series}, y, from_zero=True).update_layout(height=SMALL).update_yaxes(exponentformat="e")


def _curves(runs: Mapping[str, Series], y: str, hover: str, window: int) -> go.Figure:
    chart = figure("step", y)
    for index, (name, series) in enumerate(runs.items()):
        points = thinned(finite(series))
        if series.width > 1:
            add_band(chart, band(series), color(index))
        elif window > 1:
            dots = {"size": 5, "color": faded(color(index), 0.5)}
            steps, values = [step for step, _ in points], [value for _, value in points]
            chart.add_scatter(x=steps, y=values, mode="markers", marker=dots, showlegend=False, hoverinfo="skip")
        line = {"color": color(index), "width": 2.5, "dash": dash(index)}
        add_curve(
            chart, smoothed(points, _points_of(window, points)), name=label(name), line=line, hovertemplate=hover, showlegend=len(runs) > 1
        )
    return chart


def _points_of(steps: int, points: Sequence[tuple[float, float]]) -> int:
    """How many neighbouring points of a thinned series so many steps are."""
    return max(round(steps * (len(points) - 1) / max(points[-1][0] - points[0][0], 1.0)), 1) if len(points) > 1 else 1
