"""The idle share, or bubble: worker seconds of the rollout in which nothing is generated, because the longest responses are not done."""

from collections.abc import Mapping

import plotly.graph_objects as go

from dashboard.analysis.series import stacked
from dashboard.analysis.step_phases import share_of_rollout
from dashboard.charts.phase_times import MAX_BARS
from dashboard.charts.theme import WORKER_STATE_COLORS, WORKER_STATE_SHAPES, figure, filled
from longtail.schemas.telemetry import Series


def idle_share(metrics: Mapping[str, Series], workers: int) -> go.Figure:
    """The share of the rollout's worker seconds that was idle, stacked: that in which the drafter was trained, and the rest."""
    chart = figure("step", "worker time in rollout (%)").update_layout(barmode="stack", legend_traceorder="normal", showlegend=True)
    steps, shares = stacked({key: share_of_rollout(metrics, key, workers) for key in ("idle_seconds", "trained_seconds")}, MAX_BARS)
    idle, trained = (shares.get(key, [0.0] * len(steps)) for key in ("idle_seconds", "trained_seconds"))
    waiting = [max(whole - part, 0.0) for whole, part in zip(idle, trained, strict=True)]
    drawn = (("trained_seconds", "drafter trained", trained, "TRAINING"), ("idle_seconds", "idle", waiting, "IDLE"))
    for key, name, values, state in drawn:
        if key in shares:
            marker = filled(WORKER_STATE_COLORS[state], WORKER_STATE_SHAPES[state])
            chart.add_bar(x=steps, y=[100 * share for share in values], name=name, marker=marker, hovertemplate="%{y:.0f} %")
    return chart
