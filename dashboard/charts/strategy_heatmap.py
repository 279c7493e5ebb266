"""How fast each strategy was at each batch size."""

from collections.abc import Callable, Mapping

import plotly.graph_objects as go

from dashboard.analysis.tuner_performance import MEASURED_PULLS, StrategyUse, UsesByBatchSize, batch_size_names, fastest
from dashboard.charts.strategy_names import strategy_label, strategy_order
from dashboard.charts.theme import BLACK, GREY, figure

FRAME, ROW_HEIGHT, FONT = 70, 36, 12
SCALE = ("#7FA3CF", "#86CFA0", "#FFE566")
"""From the least to the greatest: ever lighter, blue to yellow, which the colour-blind tell apart, and black text can be read on all."""
UNMEASURED = "#B8B8B8"
THOUSANDS = 10_000
MEASURES: Mapping[str, tuple[str, Callable[[StrategyUse], float]]] = {
    "tokens per second": ("%{text} tokens/s", lambda use: use.rate),
    "pulls": ("%{text} decode steps", lambda use: use.pulls),
}


def strategy_heatmap(uses: UsesByBatchSize, measure: str) -> go.Figure:
    """A cell for each batch size and strategy with its ``measure``, a key of MEASURES; empty where the arm was not used. Of each batch
    size the fastest measured strategy has a star; one that is not measured yet has a question mark and no colour. Colours compare the
    measured strategies of one batch size, from its least to its greatest."""
    hover, value = MEASURES[measure]
    names = batch_size_names(uses)
    strategies = sorted({strategy for row in uses.values() for strategy in row}, key=strategy_order, reverse=True)
    columns = [{name: value(use) for name, use in uses[bucket].items() if _measured(use)} for bucket in names]
    winners = {bucket: fastest(uses[bucket]) for bucket in names}
    labels = {name: strategy_label(name) for name in strategies}
    chart = figure("running requests of a worker", "", FRAME + ROW_HEIGHT * len(strategies)).update_layout(hovermode="closest")
    cells = {
        "x": list(names.values()),
        "y": list(labels.values()),
        "text": [[_cell(uses[bucket].get(name), value, name == winner) for bucket, winner in winners.items()] for name in strategies],
        "texttemplate": "%{text}",
        "textfont": {"color": BLACK, "size": FONT},
        "zmin": 0,
        "zmax": 1,
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": f"%{{y}}, %{{x}} requests: {hover}<extra></extra>",
    }
    key = {"title": {"text": "least to greatest at as many requests"}, "orientation": "h", "thickness": 10, "tickvals": []}
    chart.add_heatmap(z=[[_shade(column, name) for column in columns] for name in strategies], colorscale=SCALE, colorbar=key, **cells)
    unmeasured = [[_unmeasured(uses[bucket].get(name)) for bucket in names] for name in strategies]
    if any(cell is not None for row in unmeasured for cell in row):
        name = f"? used less than {MEASURED_PULLS} times"
        chart.add_heatmap(z=unmeasured, colorscale=(UNMEASURED, UNMEASURED), showscale=False, showlegend=True, name=name, **cells)
    star = {"symbol": "star", "size": FONT, "color": GREY}
    chart.add_scatter(x=[None], y=[None], name="fastest at as many requests", mode="markers", marker=star, showlegend=True)
    chart.update_xaxes(type="category", tickangle=0, tickvals=cells["x"], ticktext=[_short(name) for name in names.values()])
    return chart.update_yaxes(
        type="category", showgrid=False, tickvals=cells["y"], ticktext=[text.replace(", ", ",<br>") for text in labels.values()]
    )


def _measured(use: StrategyUse) -> bool:
    return use.pulls >= MEASURED_PULLS


def _unmeasured(use: StrategyUse | None) -> float | None:
    return 0.0 if use and not _measured(use) else None


def _shade(column: Mapping[str, float], strategy: str) -> float | None:
    if strategy not in column:
        return None
    least, most = min(column.values()), max(column.values())
    return (column[strategy] - least) / (most - least) if most > least else 1.0


def _cell(use: StrategyUse | None, value: Callable[[StrategyUse], float], is_best: bool) -> str:
    if use is None:
        return ""
    amount = value(use)
    text = f"{amount / 1000:,.1f}k" if amount >= THOUSANDS else f"{amount:,.0f}"
    return f"{text}{'<br>★' if is_best else '' if _measured(use) else ' ?'}"


def _short(batch_sizes: str) -> str:
    """``4–7`` and ``8+``: on a phone a column is narrow."""
    return batch_sizes.replace(" to ", "–").replace(" and more", "+")
