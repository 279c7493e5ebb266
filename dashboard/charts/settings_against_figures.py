"""Runs as points and as lines: any figure against any setting, and all of both side by side (parallel coordinates)."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dashboard.charts.theme import HEIGHT, SYMBOLS, color, dash, figure, label

Value = float | str | None
TALL = HEIGHT + 120
LONGEST_TICK = 18


def scatter(points: Mapping[str, tuple[Value, Value]], x: str, y: str) -> go.Figure | None:
    """A mark for each run; keys of ``points`` are the names in the legend. None where no run has both values."""
    known = {name: pair for name, pair in points.items() if None not in pair}
    if not known:
        return None
    chart = figure(label(x), label(y)).update_layout(hovermode="closest", showlegend=True)
    for index, (name, (setting, value)) in enumerate(known.items()):
        marker = {"size": 11, "color": color(index), "symbol": SYMBOLS[index % len(SYMBOLS)]}
        hover = "%{x}: %{y:.4g}" if isinstance(value, float) else "%{x}: %{y}"
        chart.add_scatter(x=[setting], y=[value], name=label(name), mode="markers", marker=marker, hovertemplate=hover)
    kind = "category" if any(isinstance(setting, str) for setting, _ in known.values()) else "linear"
    return chart.update_xaxes(type=kind, rangemode="normal").update_yaxes(rangemode="normal")


def parallel_coordinates(runs: Mapping[str, Sequence[Value]], axes: Sequence[str]) -> go.Figure | None:
    """A line for each run through its value on each of the ``axes``, each with a scale of its own from its least to its greatest value;
    what a run lacks leaves a gap. ``meta`` of a line are axes and values, as heights say nothing. None with fewer than two axes."""
    if len(axes) < 2:
        return None
    chart = figure("", "", TALL).update_layout(hovermode="closest", showlegend=True)
    scales = [_Scale([values[place] for values in runs.values()]) for place in range(len(axes))]
    for index, (name, values) in enumerate(runs.items()):
        told = [
            f"{axis}: {value if isinstance(value, str) else f'{value:.4g}'}"
            for axis, value in zip(axes, values, strict=True)
            if value is not None
        ]
        chart.add_scatter(
            x=list(range(len(axes))),
            y=[scale.place(value) for scale, value in zip(scales, values, strict=True)],
            name=label(name),
            mode="lines+markers",
            meta=[list(pair) for pair in zip(axes, values, strict=True)],
            line={"color": color(index), "dash": dash(index), "width": 2},
            hovertemplate="<br>".join(map(label, told)) + "<extra></extra>",
        )
    for place, scale in enumerate(scales):
        chart.add_vline(x=place, line={"width": 1, "color": "#999999"})
        for height, text in scale.ticks():
            above = {"xanchor": "left", "yanchor": "bottom", "xshift": 3}
            chart.add_annotation(x=place, y=height, text=label(text), showarrow=False, font={"size": 11}, **above)
    chart.update_xaxes(tickvals=list(range(len(axes))), ticktext=[_in_lines(axis) for axis in axes], showgrid=False)
    return chart.update_yaxes(visible=False, rangemode="normal")


def _in_lines(axis: str) -> str:
    """A setting under its section: ``name`` alone is that of a task, of an algorithm or of a tuner."""
    section, dot, name = axis.rpartition(".")
    return f"{label(section)}{dot}<br>{label(name)}" if dot else label(axis)


class _Scale:
    """From 0 to 1: numbers in proportion, words in their order."""

    def __init__(self, values: Sequence[Value]) -> None:
        known = [value for value in values if value is not None]
        self._words = sorted({str(value) for value in known}) if any(isinstance(value, str) for value in known) else None
        numbers = [value for value in known if not isinstance(value, str)]
        self._low, self._high = (min(numbers), max(numbers)) if numbers and self._words is None else (0.0, 1.0)

    def place(self, value: Value) -> float | None:
        if value is None:
            return None
        if self._words is not None:
            return self._words.index(str(value)) / max(len(self._words) - 1, 1)
        assert not isinstance(value, str)
        return (value - self._low) / (self._high - self._low) if self._high > self._low else 0.5

    def ticks(self) -> list[tuple[float, str]]:
        if self._words is not None:
            return [(place / max(len(self._words) - 1, 1), word[:LONGEST_TICK]) for place, word in enumerate(self._words)]
        if self._high <= self._low:
            return [(0.5, f"{self._low:.4g}")]
        return [(0.0, f"{self._low:.4g}"), (1.0, f"{self._high:.4g}")]
