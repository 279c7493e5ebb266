"""Curves over steps of one or more runs: each step as a faint dot, a smoothed line through them."""

from collections.abc import Mapping

import plotly.graph_objects as go

from backend.schemas.telemetry import Series
from dashboard.charts.series import finite, smoothed, thinned
from dashboard.charts.theme import color, faded, figure, label


def rewards(runs: Mapping[str, Series], window: int = 5) -> go.Figure:
    """Mean reward; keys are the names in the legend, ``window`` is in steps."""
    return _curves(runs, "mean reward", "%{y:.3f}", window).update_yaxes(rangemode="normal")


def step_times(runs: Mapping[str, Series], window: int = 5) -> go.Figure:
    return _curves(runs, "seconds per step", "%{y:.2f} s", window)


def accept_lengths(runs: Mapping[str, Series], window: int = 1) -> go.Figure:
    """Tokens that one pass of the target yields, its own included; a plain run is at 1 by definition."""
    chart = _curves(runs, "tokens per target pass", "%{y:.2f}", window)
    chart.add_hline(
        y=1, line={"dash": "dot", "width": 1, "color": "#999999"}, annotation_text="plain decoding", annotation_position="top right"
    )
    return chart


def _curves(runs: Mapping[str, Series], y: str, hover: str, window: int) -> go.Figure:
    chart = figure("step", y)
    for index, (name, series) in enumerate(runs.items()):
        points = thinned(finite(series))
        steps, values = [step for step, _ in points], [value for _, value in points]
        curve = [value for _, value in smoothed(points, window)]
        if window > 1:
            dots = {"size": 5, "color": faded(color(index), 0.5)}
            chart.add_scatter(x=steps, y=values, mode="markers", marker=dots, showlegend=False, hoverinfo="skip")
        line, mode = {"color": color(index), "width": 2.5}, "lines" if len(points) > 1 else "markers"
        chart.add_scatter(x=steps, y=curve, name=label(name), mode=mode, line=line, hovertemplate=hover, showlegend=len(runs) > 1)
    return chart
