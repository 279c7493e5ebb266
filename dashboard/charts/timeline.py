"""Who did what when: one lane for each worker."""

from collections.abc import Sequence

import plotly.graph_objects as go

from backend.schemas.telemetry import Span
from dashboard.charts.theme import WORKER_STATES, figure

UNITS = ((2 * 86400, 86400.0, "days"), (2 * 3600, 3600.0, "hours"), (300, 60.0, "minutes"), (0, 1.0, "seconds"))
MAX_LABELS = 12


def timeline(spans: Sequence[Span], origin: float) -> go.Figure:
    """Lanes of coloured spans; time counts from ``origin`` (seconds since the epoch). Dotted lines part the steps."""
    latest = max((span.end for span in spans), default=origin) - origin
    scale, unit = next((scale, unit) for least, scale, unit in UNITS if latest >= least)
    workers = sorted({span.worker for span in spans})
    chart = figure(f"{unit} since the start", "", height=124 + 30 * max(2, min(len(workers), 24)))
    for state, shade in WORKER_STATES.items():
        chosen = [span for span in spans if span.state == state]
        if not chosen:
            continue
        chart.add_bar(
            orientation="h",
            y=[_lane(span.worker) for span in chosen],
            base=[(span.start - origin) / scale for span in chosen],
            x=[(span.end - span.start) / scale for span in chosen],
            customdata=[(span.step, span.end - span.start) for span in chosen],
            name=state,
            marker={"color": shade, "line": {"width": 0}},
            hovertemplate="%{y}, step %{customdata[0]}: " + state + " %{customdata[1]:.2f} s<extra></extra>",
        )
    _part_steps(chart, spans, origin, scale)
    chart.update_layout(barmode="overlay", bargap=0.25, hovermode="closest", showlegend=True, margin_t=56)
    chart.update_layout(legend={"traceorder": "normal", "yref": "container", "y": 1, "yanchor": "top"})
    chart.update_yaxes(categoryorder="array", categoryarray=[_lane(worker) for worker in reversed(workers)], rangemode="normal")
    first = min((span.start for span in spans), default=origin) - origin
    return chart.update_xaxes(rangemode="normal", showgrid=False, range=[first / scale, latest / scale])


def _lane(worker: int) -> str:
    return f"worker {worker}"


def _part_steps(chart: go.Figure, spans: Sequence[Span], origin: float, scale: float) -> None:
    starts: dict[int, float] = {}
    for span in spans:
        starts[span.step] = min(span.start, starts.get(span.step, span.start))
    for step, start in sorted(starts.items()):
        position = (start - origin) / scale
        chart.add_vline(x=position, line={"dash": "dot", "width": 1, "color": "#999999"})
        if len(starts) <= MAX_LABELS:
            chart.add_annotation(x=position, y=1, yref="paper", yanchor="bottom", xanchor="left", text=f"step {step}", showarrow=False)
