"""The bubble: worker seconds of the rollout in which nothing is generated, because the longest responses are not done."""

from collections.abc import Mapping

import plotly.graph_objects as go

from backend.schemas.telemetry import Series
from dashboard.charts.phases import MAX_BARS
from dashboard.charts.series import finite, thinned
from dashboard.charts.theme import WORKER_STATES, figure


def bubble(metrics: Mapping[str, Series], workers: int) -> go.Figure:
    """The share of the rollout's worker seconds that was idle, stacked: that in which the drafter was trained, and the rest."""
    chart = figure("step", "worker time in rollout (%)").update_layout(barmode="stack", legend_traceorder="normal", showlegend=True)
    shares = {name: thinned(share_of_rollout(metrics, name, workers), MAX_BARS) for name in ("idle_seconds", "trained_seconds")}
    trained = dict(shares["trained_seconds"])
    waiting = [(step, share - trained.get(step, 0.0)) for step, share in shares["idle_seconds"]]
    for name, points, state in (("drafter trained", shares["trained_seconds"], "TRAINING"), ("idle", waiting, "IDLE")):
        if points:
            steps, values = [step for step, _ in points], [100 * share for _, share in points]
            chart.add_bar(x=steps, y=values, name=name, marker_color=WORKER_STATES[state], hovertemplate="%{y:.0f} %")
    return chart


def share_of_rollout(metrics: Mapping[str, Series], key: str, workers: int) -> list[tuple[float, float]]:
    """A series of worker seconds by what all workers had in the rollout of the same step."""
    rollout = dict(finite(metrics.get("phase/rollout", Series())))
    return [
        (step, seconds / (workers * rollout[step])) for step, seconds in finite(metrics.get(key, Series())) if rollout.get(step, 0.0) > 0
    ]
