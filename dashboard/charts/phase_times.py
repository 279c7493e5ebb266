"""Where the seconds of a step go: step by step of one run, or in a mean step of several."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dashboard.analysis.series import stacked
from dashboard.analysis.step_phases import phase_means
from dashboard.charts.theme import PHASE_COLORS, PHASE_SHAPES, figure, filled, height_for_runs, label_in_lines
from longtail.schemas.comparison import AlignedMetric
from longtail.schemas.telemetry import Series

MAX_BARS = 150


def phases_by_step(metrics: Mapping[str, Series]) -> go.Figure:
    """Seconds by phase, stacked, from the series ``phase/<name>``; neighbouring steps of a long run share a bar (their mean)."""
    chart = figure("step", "seconds per step")
    steps, phases = stacked({name: metrics.get(f"phase/{name}", Series()) for name in PHASE_COLORS}, MAX_BARS)
    for name, seconds in phases.items():
        marker = filled(PHASE_COLORS[name], PHASE_SHAPES[name])
        chart.add_bar(x=steps, y=seconds, name=name, marker=marker, hovertemplate="%{y:.2f} s")
    return chart.update_layout(barmode="stack", legend_traceorder="normal")


def phases_by_run(metrics: Sequence[AlignedMetric], names: Mapping[str, str]) -> go.Figure:
    """Seconds of a mean step, a bar for each run, the baseline on top. Keys of ``names`` are run ids."""
    chart = figure("seconds per step", "", height_for_runs(len(names))).update_layout(
        barmode="stack", hovermode="closest", showlegend=True, bargap=0.3
    )
    for phase, means in phase_means(metrics, list(names)).items():
        chart.add_bar(
            orientation="h",
            x=[means[run_id] for run_id in names],
            y=list(names),
            name=phase,
            marker=filled(PHASE_COLORS[phase], PHASE_SHAPES[phase]),
            hovertemplate=f"{phase} %{{x:.3g}} s<extra></extra>",
        )
    ticks = [label_in_lines(name) for name in names.values()]
    chart.update_yaxes(autorange="reversed", tickvals=list(names), ticktext=ticks, type="category", rangemode="normal")
    return chart.update_layout(legend_traceorder="normal")
