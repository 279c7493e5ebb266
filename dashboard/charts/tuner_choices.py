"""What the tuner chooses, step by step: each strategy's share of the time, and what better choices would have saved."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import plotly.graph_objects as go

from dashboard.analysis.series import chunks
from dashboard.analysis.tuner_performance import Regret
from dashboard.charts.strategy_names import strategy_fills, strategy_label, strategy_order
from dashboard.charts.theme import VERMILION, figure, filled
from longtail.schemas.telemetry import SpeculationStep


def choices_by_step(steps: Sequence[SpeculationStep]) -> go.Figure:
    """Each strategy's share of the seconds of decoding, by step, stacked to 100 %."""
    chart = figure("step", "share of the decode time (%)").update_layout(barmode="stack", bargap=0, showlegend=True, hovermode="closest")
    drawn = chunks(steps)
    seconds = [_seconds(chunk) for chunk in drawn]
    fills = strategy_fills({name for counts in seconds for name in counts})
    for strategy in sorted(fills, key=strategy_order):
        chart.add_bar(
            x=[chunk[0].step for chunk in drawn],
            y=[100 * counts.get(strategy, 0.0) / (sum(counts.values()) or 1) for counts in seconds],
            name=strategy_label(strategy),
            marker=filled(*fills[strategy]),
            hovertemplate="step %{x}, %{fullData.name}: %{y:.0f} %<extra></extra>",
        )
    return chart.update_yaxes(range=[0, 100])


def _seconds(steps: Sequence[SpeculationStep]) -> Mapping[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for arm in (arm for step in steps for arm in step.arms):
        seconds[arm.strategy] += arm.seconds
    return seconds


def regret_by_step(found: Sequence[Regret]) -> go.Figure:
    """Seconds of each step that the best arms would have saved."""
    chart = figure("step", "seconds lost in a step").update_layout(hovermode="closest")
    drawn = chunks(found)
    shares = [sum(one.lost for one in chunk) / (sum(one.seconds for one in chunk) or 1) for chunk in drawn]
    chart.add_bar(
        x=[chunk[0].step for chunk in drawn],
        y=[fmean(one.lost for one in chunk) for chunk in drawn],
        customdata=shares,
        marker_color=VERMILION,
        hovertemplate="step %{x}: %{y:.2f} s, %{customdata:.1%} of the decode time<extra></extra>",
    )
    return chart
