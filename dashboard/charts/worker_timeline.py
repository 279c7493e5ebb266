"""Who did what when: one lane for each worker, what drafted in it, and beneath how many requests ran."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from dashboard.charts.strategy_names import Kind, strategy_kind, strategy_label
from dashboard.charts.theme import BLACK, GREY, WHITE, WORKER_STATE_COLORS, WORKER_STATE_SHAPES, YELLOW, figure, filled, worker_line
from dashboard.charts.time_axis import time_unit
from longtail.schemas.telemetry import Decoding, WorkerSpan

MAX_LABELS = 12
MAX_LANES = 24
MAX_POINTS = 4000
"""Of the curves of running requests together; of a long window each has fewer."""
FRAME, LANE, RUNNING = 124, 30, 170
"""Pixels: titles and legend, a worker, the curves beneath."""
STRIP: dict[Kind, tuple[str, dict[str, Any]]] = {
    "tree": ("drafts: tree", {"color": BLACK}),
    "chain": ("drafts: chain", {"color": YELLOW}),
    "n-gram": ("drafts: n-gram", {"color": WHITE}),
    "other": ("drafts: mixed", {"color": WHITE, "pattern": {"shape": "/", "fgcolor": BLACK, "bgcolor": WHITE, "size": 4, "solidity": 0.4}}),
}
"""So dark or so light that they stand out from the lanes of a worker that generates."""
MARKS = {
    "longest_first": ("longest first", "triangle-right", 12, "longest first, {:,} tokens predicted"),
    "carried": ("carried over", "diamond", 8, "{:,} responses carried over"),
    "stopped": ("stopped early", "x", 8, "{:,} responses stopped early"),
}
"""What was done about the tail: name, symbol and its size, words."""


class StrategySpan(NamedTuple):
    """From ``start`` to ``end`` a worker used one strategy."""

    worker: int
    step: int
    strategy: str
    start: float
    end: float


def worker_timeline(spans: Sequence[WorkerSpan], origin: float, decoding: Sequence[Decoding] = ()) -> go.Figure:
    """Lanes of coloured spans; time counts from ``origin`` (seconds since the epoch). Dotted lines part the steps. A strip in a lane
    tells what drafts; without one, or where no strip is, decoding was plain. Symbols tell what was done about the tail. ``decoding``, if
    there is some, is drawn beneath, too."""
    latest = max((span.end for span in spans), default=origin) - origin
    scale, unit = time_unit(latest)
    workers = sorted({span.worker for span in spans})
    height = FRAME + LANE * max(2, min(len(workers), MAX_LANES))
    chart = figure(f"{unit} since the start", "", height=height + (RUNNING if decoding else 0))
    _add_spans(chart, spans, origin, scale)
    _add_strips(chart, decoding, origin, scale)
    _add_marks(chart, decoding, origin, scale)
    _part_steps(chart, spans, origin, scale)
    chart.update_layout(barmode="overlay", bargap=0.25, hovermode="closest", showlegend=True, margin_t=56)
    chart.update_layout(legend={"traceorder": "normal", "yref": "container", "y": 1, "yanchor": "top"})
    chart.update_yaxes(categoryorder="array", categoryarray=[_lane(worker) for worker in reversed(workers)], rangemode="normal")
    first = min((span.start for span in spans), default=origin) - origin
    chart.update_xaxes(rangemode="normal", showgrid=False, range=[first / scale, latest / scale])
    if decoding:
        _add_running(chart, decoding, origin, scale, share=RUNNING / (height + RUNNING - FRAME))
    return chart


def _lane(worker: int) -> str:
    return f"worker {worker}"


def _add_spans(chart: go.Figure, spans: Sequence[WorkerSpan], origin: float, scale: float) -> None:
    for state, shade in WORKER_STATE_COLORS.items():
        chosen = [span for span in spans if span.state == state]
        marker = filled(shade, WORKER_STATE_SHAPES[state])
        _add_bars(chart, chosen, origin, scale, [state] * len(chosen), name=state, marker=marker)


def _add_strips(chart: go.Figure, decoding: Sequence[Decoding], origin: float, scale: float) -> None:
    """Narrow bars in the lanes, which go on above and below: beside the page, black or white would look like a gap."""
    drafted = [one for item in decoding for one in strategy_spans(item)]
    for kind, (name, style) in STRIP.items():
        chosen = [one for one in drafted if strategy_kind(one.strategy) == kind]
        marker = {"line": {"width": 0}, **style}
        told = [f"{strategy_label(one.strategy)} for" for one in chosen]
        _add_bars(chart, chosen, origin, scale, told, name=name, marker=marker, width=0.22, offset=-0.3)


def _add_bars(
    chart: go.Figure, spans: Sequence[WorkerSpan | StrategySpan], origin: float, scale: float, told: Sequence[str], **style: Any
) -> None:
    """A bar for each span in its worker's lane; nothing where there are none."""
    if spans:
        chart.add_bar(
            orientation="h",
            y=[_lane(span.worker) for span in spans],
            base=[(span.start - origin) / scale for span in spans],
            x=[(span.end - span.start) / scale for span in spans],
            customdata=[(span.step, what, span.end - span.start) for span, what in zip(spans, told, strict=True)],
            hovertemplate="%{y}, step %{customdata[0]}: %{customdata[1]} %{customdata[2]:.2f} s<extra></extra>",
            **style,
        )


def _add_marks(chart: go.Figure, decoding: Sequence[Decoding], origin: float, scale: float) -> None:
    """Each tells of all at its place, since one may cover another."""
    found = [(item, time, what) for item in decoding for time, what, _ in item.marks or ()]
    for kind, (name, symbol, size, _) in MARKS.items():
        chosen = [(item, time) for item, time, what in found if what == kind]
        if chosen:
            chart.add_scatter(
                x=[(item.start + time - origin) / scale for item, time in chosen],
                y=[_lane(item.worker) for item, _ in chosen],
                customdata=[(item.step, _told(item, time)) for item, time in chosen],
                name=name,
                mode="markers",
                marker={"symbol": symbol, "size": size, "color": WHITE, "line": {"color": BLACK, "width": 1}},
                cliponaxis=False,
                hovertemplate="%{y}, step %{customdata[0]}: %{customdata[1]}<extra></extra>",
            )


def _told(item: Decoding, time: float) -> str:
    return "; ".join(MARKS[what][-1].format(number) for when, what, number in item.marks or () if when == time)


def strategy_spans(item: Decoding) -> Iterator[StrategySpan]:
    """The times in which a worker did not decode plainly."""
    points = [(item.start + after, strategy if running else "off") for after, running, strategy in item.points]
    for strategy, group in groupby(pairwise(points), lambda pair: pair[0][1]):
        pairs = list(group)
        if strategy != "off":
            yield StrategySpan(item.worker, item.step, strategy, pairs[0][0][0], pairs[-1][1][0])


def _add_running(chart: go.Figure, decoding: Sequence[Decoding], origin: float, scale: float, share: float) -> None:
    """A curve for each worker, in the lower ``share`` of the chart."""
    stride = -(-sum(len(item.points) for item in decoding) // MAX_POINTS)
    for index, worker in enumerate(sorted({item.worker for item in decoding})):
        points = [
            (item.start + after, running, strategy)
            for item in decoding
            if item.worker == worker
            for after, running, strategy in [*item.points[:-1:stride], item.points[-1]]
        ]
        chart.add_scatter(
            x=[(time - origin) / scale for time, _, _ in points],
            y=[running for _, running, _ in points],
            customdata=[strategy_label(strategy) for _, _, strategy in points],
            yaxis="y2",
            name=_lane(worker),
            legend="legend2",
            mode="lines",
            line=worker_line(index),
            hovertemplate="%{y} run, %{customdata}",
        )
    chart.update_layout(
        xaxis_anchor="y2",
        yaxis_domain=[share, 1],
        yaxis2={"domain": [0, 0.82 * share], "title": "running requests", "rangemode": "tozero"},
        legend2={"orientation": "h", "x": 0, "y": 0.82 * share, "yanchor": "bottom"},
    )


def _part_steps(chart: go.Figure, spans: Sequence[WorkerSpan], origin: float, scale: float) -> None:
    starts: dict[int, float] = {}
    for span in spans:
        starts[span.step] = min(span.start, starts.get(span.step, span.start))
    positions = {step: (start - origin) / scale for step, start in sorted(starts.items())}
    line = {"type": "line", "y0": 0, "y1": 1, "yref": "y domain", "line": {"dash": "dot", "width": 1, "color": GREY}}
    chart.update_layout(shapes=[line | {"x0": x, "x1": x} for x in positions.values()])  # at once: plotly checks all at each add_vline
    if len(positions) <= MAX_LABELS:
        for step, x in positions.items():
            told = f"step {step}" if step == min(positions) else f"{step}"  # on a phone there is no room for the word at each
            chart.add_annotation(x=x, y=1, yref="paper", yanchor="bottom", xanchor="left", text=told, showarrow=False)
