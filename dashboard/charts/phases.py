"""Where the seconds of a step go."""

from collections.abc import Mapping

import plotly.graph_objects as go

from backend.schemas.telemetry import Series
from dashboard.charts.series import finite, thinned
from dashboard.charts.theme import PHASES, figure

MAX_BARS = 150


def phases(metrics: Mapping[str, Series]) -> go.Figure:
    """Seconds by phase, stacked, from the series ``phase/<name>``; neighbouring steps of a long run share a bar (their mean)."""
    chart = figure("step", "seconds per step")
    for name, shade in PHASES.items():
        points = thinned(finite(metrics.get(f"phase/{name}", Series())), MAX_BARS)
        if not points:
            continue
        steps, seconds = [step for step, _ in points], [value for _, value in points]
        chart.add_bar(x=steps, y=seconds, name=name, marker_color=shade, hovertemplate="%{y:.2f} s")
    return chart.update_layout(barmode="stack", legend_traceorder="normal")
