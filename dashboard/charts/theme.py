"""One look for all charts. Each colour stands out from a white page and from a dark one; where colours tell things apart, so does a
pattern or a dash, for those who see no colours."""

import html
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from dashboard.analysis.step_phases import PHASES
from dashboard.text.escaping import visible
from dashboard.text.formats import short

BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = "#0072B2", "#C87800", "#00875A", "#B0568F", "#009FB5", "#C03018"
GREY, BROWN = "#7A7A7A", "#A86048"
YELLOW, WHITE, BLACK = "#F0E442", "#FFFFFF", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
WORKERS = ("#9018F0", "#D80048", "#2C9C2C", "#1890A8", "#F030D8", "#8A6A00", "#7848D8", "#C03018")
"""Of curves, apart from each other and from WORKER_STATE_COLORS, which lie in the same chart."""
DASHES = ("solid", "dash", "dot")
SYMBOLS = ("circle", "diamond", "square", "cross", "x", "triangle-up", "star")
SHAPES = ("", "/", "x", "-", "\\", ".", "|", "+")
"""Plotly's names of patterns."""

WORKER_STATE_COLORS: Mapping[str, str] = {
    "BUSY": BLUE,
    "IDLE": GREY,
    "TRAINING": ORANGE,
    "INFERENCE": BROWN,
    "UPDATE": GREEN,
    "EVALUATION": PURPLE,
}
WORKER_STATE_SHAPES: Mapping[str, str] = dict(zip(WORKER_STATE_COLORS, ("", ".", "/", "|", "x", "-"), strict=True))
PHASE_COLORS: Mapping[str, str] = dict(zip(PHASES, (BLUE, VERMILION, SKY, GREEN, PURPLE, GREY), strict=True))
PHASE_SHAPES: Mapping[str, str] = dict(zip(PHASES, SHAPES, strict=False))


HEIGHT, ROW, FEW = 280, 14, 2
"""Of a chart, and of each row of its legend but the first few, in pixels."""
FRAME, BAR, LEAST_BARS = 110, 34, 5
LINE = 20
"""Characters of a name beside a chart."""


def figure(x: str, y: str, height: int = HEIGHT) -> go.Figure:
    """An empty figure with titled axes and the legend above it."""
    chart = go.Figure()
    chart.update_layout(
        height=height,
        margin={"l": 8, "r": 12, "t": 16, "b": 8},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "xanchor": "left", "x": 0, "title": None},
        hovermode="x unified",
        bargap=0.08,
    )
    chart.update_xaxes(title_text=x)
    chart.update_yaxes(title_text=y, rangemode="tozero")
    return chart


def height_for_curves(curves: int) -> int:
    """Of a chart that has a legend for so many curves."""
    return HEIGHT + ROW * max(curves - FEW, 0)


def height_for_runs(runs: int) -> int:
    """Of charts that have a bar or a mark for each run, and stand side by side."""
    return FRAME + BAR * max(LEAST_BARS, runs)


def color(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> str:
    """Tells lines of one colour apart, where there are more lines than colours."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


def line(index: int) -> dict[str, object]:
    """Of a curve among others. The first is seen beneath one that runs over it: runs of one seed can be the same to the last digit."""
    return {"color": color(index), "width": 2 if index else 4.5, "dash": dash(index)}


def worker_line(index: int) -> dict[str, object]:
    """Of a worker's curve: no two of as many workers as there are colours and dashes have the same."""
    row, column = divmod(index, len(WORKERS))
    return {"color": WORKERS[column], "width": 1.5, "dash": DASHES[(row + column) % len(DASHES)], "shape": "hv"}


def filled(color: str, shape: str = "") -> dict[str, object]:
    """Of bars: ``shape`` is a pattern of SHAPES, in white on the colour."""
    pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": WHITE, "fgopacity": 0.8, "size": 6, "solidity": 0.2} if shape else None
    return {"color": color, "line": {"width": 0}, "pattern": pattern}


def striped(color: str, shape: str = "") -> dict[str, object]:
    """Of an area below a curve: ``shape`` is a pattern of SHAPES, in the full colour on a faded one."""
    pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": color, "fgopacity": 1, "size": 8, "solidity": 0.2} if shape else None
    return {"line": {"width": 0.5, "color": color}, "fillcolor": faded(color, 0.5), "fillpattern": pattern}


def add_curve(chart: go.Figure, points: Sequence[tuple[float, float]], **style: Any) -> None:
    """A line, or a mark where there is but one point."""
    x, y = [x for x, _ in points], [y for _, y in points]
    chart.add_scatter(x=x, y=y, mode="lines" if len(points) > 1 else "markers", **style)


def add_band(chart: go.Figure, edges: Sequence[tuple[float, float, float]], color: str) -> None:
    """Around a curve, from its place, least and greatest value: down along the least and back along the greatest, filled."""
    outline = [*((x, low) for x, low, _ in edges), *((x, high) for x, _, high in reversed(edges))]
    x, y = [x for x, _ in outline], [y for _, y in outline]
    chart.add_scatter(x=x, y=y, fill="toself", fillcolor=faded(color, 0.2), line={"width": 0}, showlegend=False, hoverinfo="skip")


def range_mode(values: Iterable[float]) -> str:
    """Of an axis: it goes no further down than 0 if no value does. Plotly itself draws what is always 0 in the middle from -1 to 1."""
    return "nonnegative" if min(values, default=0) >= 0 else "normal"


def faded(color: str, opacity: float) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def label(text: str) -> str:
    """Foreign text for a legend or a category: shortened, and shown as text, since plotly would render tags."""
    return html.escape(short(visible(text)), quote=False)


def label_in_lines(text: str) -> str:
    """A label beside a chart, in two lines at most: in one, a long name takes so much of a phone's width that the axis is cut."""
    told = short(visible(text), 2 * LINE)
    lines = wrap(told, LINE)
    return "<br>".join(html.escape(line, quote=False) for line in (lines if len(lines) < 3 else (told[:LINE], told[LINE:])))
