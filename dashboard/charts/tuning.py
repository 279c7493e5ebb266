"""What the tuner chooses, and whether it chooses well: arms by batch size, shares of the time, regret."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

import plotly.graph_objects as go

from backend.schemas.telemetry import SpeculationStep
from dashboard.arms import ENOUGH, Regret, Use, Uses, best, bucket_names
from dashboard.charts.series import MAX_POINTS
from dashboard.charts.strategies import shades, strategy_label, strategy_order
from dashboard.charts.theme import VERMILION, figure

ROW_HEIGHT = 30
SCALE = "Cividis"  # made so that the colour-blind see it as others do
MEASURES: Mapping[str, tuple[str, Callable[[Use], float]]] = {
    "tokens per second": ("%{text} tokens/s", lambda use: use.rate),
    "pulls": ("%{text} decode steps", lambda use: use.pulls),
}

Item = TypeVar("Item")


def heat(uses: Uses, measure: str) -> go.Figure:
    """A cell for each batch size and strategy with its ``measure``, a key of MEASURES; empty where the arm was not used. Of each batch
    size the fastest measured strategy is marked; a question mark says that one is not measured yet. Colours compare the strategies of one
    batch size, from its least to its greatest."""
    hover, value = MEASURES[measure]
    names = bucket_names(uses)
    strategies = sorted({strategy for row in uses.values() for strategy in row}, key=strategy_order, reverse=True)
    columns = [{strategy: value(use) for strategy, use in uses[bucket].items()} for bucket in names]
    winners = {bucket: best(uses[bucket]) for bucket in names}
    chart = figure("running requests of a worker", "", 110 + ROW_HEIGHT * len(strategies)).update_layout(hovermode="closest")
    chart.add_heatmap(
        x=list(names.values()),
        y=[strategy_label(strategy) for strategy in strategies],
        z=[[_shade(column, strategy) for column in columns] for strategy in strategies],
        text=[[_cell(uses[bucket].get(name), value, name == winner) for bucket, winner in winners.items()] for name in strategies],
        texttemplate="%{text}",
        colorscale=SCALE,
        zmin=0,
        zmax=1,
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate=f"%{{y}}, %{{x}} requests: {hover}<extra></extra>",
    )
    return chart.update_xaxes(type="category").update_yaxes(type="category", showgrid=False)


def _shade(column: Mapping[str, float], strategy: str) -> float | None:
    least, most = min(column.values()), max(column.values())
    return None if strategy not in column else (column[strategy] - least) / (most - least) if most > least else 1.0


def _cell(use: Use | None, value: Callable[[Use], float], is_best: bool) -> str:
    if use is None:
        return ""
    return f"{value(use):,.0f}{' fastest' if is_best else '' if use.pulls >= ENOUGH else ' ?'}"


def choices(steps: Sequence[SpeculationStep]) -> go.Figure:
    """Each strategy's share of the seconds of decoding, by step, stacked to 100 %."""
    chart = figure("step", "share of the decode time (%)").update_layout(barmode="stack", bargap=0, showlegend=True, hovermode="closest")
    chunks = _chunks(steps)
    seconds = [_seconds(chunk) for chunk in chunks]
    colors = shades({name for counts in seconds for name in counts})
    for strategy in sorted(colors, key=strategy_order):
        chart.add_bar(
            x=[chunk[0].step for chunk in chunks],
            y=[100 * counts.get(strategy, 0.0) / (sum(counts.values()) or 1) for counts in seconds],
            name=strategy_label(strategy),
            marker={"color": colors[strategy], "line": {"width": 0}},
            hovertemplate="step %{x}, %{fullData.name}: %{y:.0f} %<extra></extra>",
        )
    return chart.update_yaxes(range=[0, 100])


def _seconds(steps: Sequence[SpeculationStep]) -> Mapping[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for arm in (arm for step in steps for arm in step.arms):
        seconds[arm.strategy] += arm.seconds
    return seconds


def lost(found: Sequence[Regret]) -> go.Figure:
    """Seconds of each step that the best arms would have saved."""
    chart = figure("step", "seconds lost in a step").update_layout(hovermode="closest")
    chunks = _chunks(found)
    shares = [sum(one.lost for one in chunk) / (sum(one.seconds for one in chunk) or 1) for chunk in chunks]
    chart.add_bar(
        x=[chunk[0].step for chunk in chunks],
        y=[fmean(one.lost for one in chunk) for chunk in chunks],
        customdata=shares,
        marker_color=VERMILION,
        hovertemplate="step %{x}: %{y:.2f} s, %{customdata:.1%} of the decode time<extra></extra>",
    )
    return chart


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Equal runs of neighbours, so few that they can be drawn."""
    stride = max(-(-len(items) // MAX_POINTS), 1)
    return [items[i : i + stride] for i in range(0, len(items), stride)]
