"""How fast each strategy was at each batch size."""

from collections.abc import Callable, Mapping

import plotly.graph_objects as go

from dashboard.analysis.tuner_performance import MEASURED_PULLS, StrategyUse, UsesByBatchSize, batch_size_names, fastest
from dashboard.charts.strategy_names import strategy_label, strategy_order
from dashboard.charts.theme import figure

ROW_HEIGHT = 30
SCALE = "Cividis"  # made so that the colour-blind see it as others do
MEASURES: Mapping[str, tuple[str, Callable[[StrategyUse], float]]] = {
    "tokens per second": ("%{text} tokens/s", lambda use: use.rate),
    "pulls": ("%{text} decode steps", lambda use: use.pulls),
}


def strategy_heatmap(uses: UsesByBatchSize, measure: str) -> go.Figure:
    """A cell for each batch size and strategy with its ``measure``, a key of MEASURES; empty where the arm was not used. Of each batch
    size the fastest measured strategy is marked; a question mark says that one is not measured yet. Colours compare the strategies of one
    batch size, from its least to its greatest."""
    hover, value = MEASURES[measure]
    names = batch_size_names(uses)
    strategies = sorted({strategy for row in uses.values() for strategy in row}, key=strategy_order, reverse=True)
    columns = [{strategy: value(use) for strategy, use in uses[bucket].items()} for bucket in names]
    winners = {bucket: fastest(uses[bucket]) for bucket in names}
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


def _cell(use: StrategyUse | None, value: Callable[[StrategyUse], float], is_best: bool) -> str:
    if use is None:
        return ""
    return f"{value(use):,.0f}{' fastest' if is_best else '' if use.pulls >= MEASURED_PULLS else ' ?'}"
