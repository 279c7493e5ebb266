"""Response lengths: the long tail itself."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from dashboard.analysis.series import thinned
from dashboard.charts.theme import BLUE, ORANGE, SKY, VERMILION, add_curve, figure, height_for_curves, label, line
from longtail.schemas.telemetry import Lengths

BINS = 48
BODY, TAIL = 300, 100
PERCENTILES: Sequence[tuple[str, str, Mapping[str, str]]] = (
    ("longest", "max", {"color": VERMILION, "dash": "dot"}),
    ("p90", "p90", {"color": ORANGE, "dash": "dash"}),
    ("p75", "p75", {"color": SKY, "dash": "dashdot"}),
    ("p50", "p50", {"color": BLUE, "dash": "solid"}),
)
"""By name: the field, and the look of its line."""


def histogram(lengths: Sequence[int], limit: int) -> go.Figure:
    """Responses by length in tokens, with the median, the 90th percentile and the longest marked; ``limit`` is where responses are cut."""
    counts, edges = _binned(lengths, limit)
    chart = figure("response length (tokens)", "responses").update_layout(hovermode="closest", showlegend=False)
    ranges = [f"{int(low) + 1} to {int(high)} tokens" for low, high in pairwise(edges)]
    chart.add_bar(
        x=((edges[:-1] + edges[1:]) / 2).tolist(),
        y=counts.tolist(),
        marker_color=BLUE,
        customdata=ranges,
        hovertemplate="%{customdata}: %{y}<extra></extra>",
    )
    if len(lengths):
        ranks = np.percentile(lengths, (50, 90, 100), method="inverted_cdf").tolist()  # the nearest rank, as the API has it
        marks = dict(zip(("p50", "p90", "longest"), ranks, strict=True))
        for row, (name, value) in enumerate(marks.items()):
            chart.add_vline(x=value, line={"dash": "dot", "width": 1.5, "color": VERMILION})
            anchor = "right" if value > 0.8 * limit else "left"
            text = f" {name} {value} "
            chart.add_annotation(x=value, y=1 - 0.11 * row, yref="paper", text=text, showarrow=False, xanchor=anchor)
    return chart.update_xaxes(range=[0, limit * 1.02])


def percentiles(steps: Sequence[Lengths]) -> go.Figure:
    """Percentiles and longest response of each step: the gap between them is the time that workers wait."""
    chart = figure("step", "response length (tokens)")
    for name, field, look in PERCENTILES:
        points = thinned([(item.step, float(getattr(item, field))) for item in steps])
        add_curve(chart, points, name=name, line={"width": 2, **look}, hovertemplate="%{y:.0f}")
    return chart


def survival(groups: Mapping[str, Sequence[int]], limit: int, log: bool = False) -> go.Figure:
    """Share of responses that are longer than so many tokens, a curve for each of the ``groups``, whose keys are the names in the legend;
    on a log axis a tail that thins out by a fixed factor is straight."""
    chart = figure("response length (tokens)", "longer responses (%)", height_for_curves(len(groups))).update_layout(hovermode="x")
    for index, (name, lengths) in enumerate(groups.items()):
        values, counts = np.unique(lengths, return_counts=True)
        longer = 100 * (1 - np.cumsum(counts) / max(1, len(lengths)))
        shown = _thinned(len(values))
        points = [(0, 100.0), *zip(values[shown].tolist(), longer[shown].tolist(), strict=True)] if len(lengths) else []
        add_curve(chart, points, name=label(name), line=line(index) | {"shape": "hv"}, hovertemplate="%{y:.3g} %")
    if log:
        least = 100 / max([1, *map(len, groups.values())])
        chart.update_yaxes(type="log", range=[np.log10(least) - 0.1, 2.05], dtick=1)
    return chart.update_layout(showlegend=True).update_xaxes(range=[0, limit * 1.02])


def _thinned(count: int) -> np.ndarray:
    """Which of so many sorted values to draw: all of the tail, and of a long body some."""
    return np.unique(np.concatenate([np.linspace(0, max(count - 1, 0), BODY, dtype=int), np.arange(max(count - TAIL, 0), count)]))[:count]


def distributions(runs: Mapping[str, Sequence[int]], limit: int) -> go.Figure:
    """Share of responses by length, an outline for each run; keys are the names in the legend."""
    chart = figure("response length (tokens)", "share of responses (%)", height_for_curves(len(runs))).update_layout(hovermode="x")
    for index, (name, lengths) in enumerate(runs.items()):
        counts, edges = _binned(lengths, limit)
        shares = (100 * counts / max(1, len(lengths))).tolist()
        style = line(index) | {"shape": "hv"}
        chart.add_scatter(x=edges.tolist(), y=[*shares, shares[-1]], name=label(name), mode="lines", line=style, hovertemplate="%{y:.1f} %")
    return chart.update_layout(showlegend=True).update_xaxes(range=[0, limit * 1.02])


def _binned(lengths: Sequence[int], limit: int) -> tuple[np.ndarray, np.ndarray]:
    return np.histogram(lengths, bins=min(BINS, limit), range=(0, max([limit, *lengths])))
