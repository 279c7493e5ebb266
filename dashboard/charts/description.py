"""What a chart shows, for those who do not see it: its main numbers in a sentence, and all of them as a table."""

import html
from collections.abc import Iterator, Sequence
from typing import Any

import plotly.graph_objects as go

MOST_SERIES = 6
Columns = dict[str, list[Any]]


def description(figure: go.Figure) -> str:
    """The axes, and of each series how far it goes and between what it lies."""
    drawn = _drawn(figure)
    heatmaps = [trace for trace in drawn if trace.type == "heatmap"]
    lanes = [trace for trace in drawn if _is_lane(trace)]
    if heatmaps:
        told = list(_best(heatmaps[0]) if heatmaps[0].customdata is not None else _latest(heatmaps[0]))
    elif lanes:
        told = [f"{_name(trace)} {sum(trace.x):.4g}" for trace in lanes]
    else:
        told = [text for trace in drawn if (text := _series(figure, trace))]
    more = f"; and {len(told) - MOST_SERIES} more" if len(told) > MOST_SERIES else ""
    return f"Chart: {_subject(figure, bool(lanes))}. {'; '.join(told[:MOST_SERIES])}{more}".strip()


def table(figure: go.Figure) -> Columns:
    """The values by column. What lies behind a curve, such as a band around it, is left out."""
    drawn = _drawn(figure)
    heatmaps = [trace for trace in drawn if trace.type == "heatmap"]
    if heatmaps:
        cells = zip(*reversed(_cells(heatmaps[0])), strict=True)
        columns = {_text(column): list(row) for column, row in zip(heatmaps[0].x, cells, strict=True)}
        return {"": [_text(name) for name in reversed(heatmaps[0].y)]} | columns
    lanes = [trace for trace in drawn if _is_lane(trace)]
    return _spans(figure, lanes) if lanes else _series_columns(figure, drawn)


def _spans(figure: go.Figure, lanes: Sequence[Any]) -> Columns:
    found = [
        (_text(lane), _name(trace), start, length)
        for trace in lanes
        for lane, start, length in zip(trace.y, trace.base, trace.x, strict=True)
    ]
    x = _title(figure.layout.xaxis) or "from"
    names = ("lane", "what", x, "length")
    return {name: list(column) for name, column in zip(names, zip(*sorted(found), strict=True), strict=True)}


def _series_columns(figure: go.Figure, drawn: Sequence[Any]) -> Columns:
    """A row for each place on the axis, a column for each series."""
    values: list[tuple[str, dict[Any, Any]]] = [(_name(trace), dict(_points(figure, trace))) for trace in drawn]
    places = dict.fromkeys(place for _, points in values for place in points)
    ordered = sorted(places) if all(isinstance(place, int | float) for place in places) else list(places)
    axis = figure.layout.yaxis if any(_is_flat(trace) for trace in drawn) else figure.layout.xaxis
    columns: Columns = {_title(axis) or " ": ordered}
    for name, points in values:
        columns[_free(name or _title(figure.layout.yaxis) or "value", columns)] = [points.get(place) for place in ordered]
    return columns


def _free(name: str, taken: Columns) -> str:
    return name if name not in taken else _free(f"{name} ", taken)


def _drawn(figure: go.Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.x is not None and len(trace.x) and trace.x[0] is not None and trace.hoverinfo != "skip"]


def _series(figure: go.Figure, trace: Any) -> str:
    if trace.meta is not None:
        told = ", ".join(f"{axis} {_place(value)}" for axis, value in trace.meta if value is not None)
        return f"{_name(trace)}: {told}"
    points = [(x, y) for x, y in _points(figure, trace) if isinstance(y, int | float)]
    if not points:
        return ""
    (first, start), (last, end) = points[0], points[-1]
    name = f"{_name(trace)}: " if trace.name else ""
    if len(points) == 1:
        return f"{name}{start:.4g} at {_place(first)}"
    least, most = min(y for _, y in points), max(y for _, y in points)
    return f"{name}{start:.4g} at {_place(first)}, {end:.4g} at {_place(last)}, between {least:.4g} and {most:.4g}"


def _points(figure: go.Figure, trace: Any) -> Iterator[tuple[Any, Any]]:
    """Place and value."""
    if trace.meta is not None:
        return ((axis, value) for axis, value in trace.meta)
    if not _is_flat(trace):
        return zip(trace.x, trace.y, strict=False)
    axis = figure.layout.yaxis
    names = dict(zip(axis.tickvals or (), axis.ticktext or (), strict=False))
    return ((_text(names.get(place, place)), value) for place, value in zip(trace.y, trace.x, strict=False))


def _is_flat(trace: Any) -> bool:
    """Whether its values go along x."""
    return trace.type in ("bar", "scatter") and bool(trace.orientation == "h")


def _is_lane(trace: Any) -> bool:
    return bool(trace.type == "bar") and _is_flat(trace) and trace.base is not None


def _cells(heatmap: Any) -> list[list[Any]]:
    """What is told of each, by row; or the numbers, where nothing is."""
    if heatmap.customdata is None:
        return [list(row) for row in heatmap.z]
    return [[_text(cell) for cell in row] for row in heatmap.customdata]


def _latest(heatmap: Any) -> Iterator[str]:
    """The last column: the amount of each row that has one."""
    for name, row in zip(heatmap.y, heatmap.z, strict=True):
        if row[-1]:
            yield f"{_text(name)}: {row[-1]:.4g} at {_place(heatmap.x[-1])}"


def _best(heatmap: Any) -> Iterator[str]:
    """Of each column the row that is marked as the best, and its value."""
    for place, column in enumerate(heatmap.x):
        for name, row in zip(heatmap.y, heatmap.customdata, strict=True):
            if row[place].endswith("★"):
                yield f"{_text(column)}: {_text(name)} ({row[place].partition('<br>')[0]})"


def _subject(figure: go.Figure, lanes: bool) -> str:
    x, y = _title(figure.layout.xaxis), _title(figure.layout.yaxis)
    if lanes:
        return f"who did what, by {x}; altogether"
    return f"{y} by {x}" if x and y else x or y


def _title(axis: Any) -> str:
    return _text(axis.title.text or "")


def _name(trace: Any) -> str:
    return _text(trace.name or "")


def _place(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _text(markup: Any) -> str:
    return html.unescape(str(markup).replace("<br>", " "))
