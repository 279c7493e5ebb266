"""The idle share, or bubble: worker seconds of the rollout in which nothing is generated, because the longest responses are not done."""

from collections.abc import Mapping

import plotly.graph_objects as go

from dashboard.analysis.series import thinned
from dashboard.analysis.step_phases import share_of_rollout
from dashboard.charts.phase_times import MAX_BARS
from dashboard.charts.theme import WORKER_STATE_COLORS, WORKER_STATE_SHAPES, figure, filled
from longtail.schemas.telemetry import Series


def idle_share(metrics: Mapping[str, Series], workers: int) -> go.Figure:
    """The share of the rollout's worker seconds that was idle, stacked: that in which the drafter was trained, and the rest."""
    chart = figure("step", "worker time in rollout (%)").update_layout(barmode="stack", legend_traceorder="normal", showlegend=True)
    shares = {name: thinned(share_of_rollout(metrics, name, workers), MAX_BARS) for name in ("idle_seconds", "trained_seconds")}
    trained = dict(shares["trained_seconds"])
    waiting = [(step, share - trained.get(step, 0.0)) for step, share in shares["idle_seconds"]]
    for name, points, state in (("drafter trained", shares["trained_seconds"], "TRAINING"), ("idle", waiting, "IDLE")):
        if points:
            steps, values = [step for step, _ in points], [100 * share for _, share in points]
            marker = filled(WORKER_STATE_COLORS[state], WORKER_STATE_SHAPES[state])
            chart.add_bar(x=steps, y=values, name=name, marker=marker, hovertemplate="%{y:.0f} %")
    return chart
