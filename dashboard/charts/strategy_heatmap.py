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
MEASURES: Mapping[str, tuple[str, Callable[[StrategyUse], float]]] = {
    "tokens per second": ("%{customdata} tokens/s", lambda use: use.rate),
    "pulls": ("%{customdata} decode steps", lambda use: use.pulls),
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
    told = [[_cell(uses[bucket].get(name), value, name == winner) for bucket, winner in winners.items()] for name in strategies]
    cells = {
        "x": list(names.values()),
        "y": list(labels.values()),
        "text": [[short for short, _ in row] for row in told],
        "customdata": [[whole for _, whole in row] for row in told],
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
    chart.update_xaxes(type="category", tickangle=0, tickvals=cells["x"], ticktext=[_narrow(name) for name in names.values()])
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


def _cell(use: StrategyUse | None, value: Callable[[StrategyUse], float], is_best: bool) -> tuple[str, str]:
    """Its amount and how that is marked: short, as a cell on a phone is narrow, and whole."""
    if use is None:
        return "", ""
    amount, mark = value(use), "<br>★" if is_best else "" if _measured(use) else " ?"
    return f"{_short(amount)}{mark}", f"{amount:,.0f}{mark}"


def _short(amount: float) -> str:
    """``1.9k``, and from ten thousand on ``12k``."""
    return f"{amount:.0f}" if round(amount) < 1000 else f"{amount / 1000:,.{1 if amount < 10_000 else 0}f}k"


def _narrow(batch_sizes: str) -> str:
    """``4–7`` and ``8+``, and of ``16 to 31`` two lines."""
    return batch_sizes.replace(" to ", "–<br>" if len(batch_sizes) > len("8 to 15") else "–").replace(" and more", "+")
