"""What a step's responses can teach: their rewards, the groups that are all alike, and how long right and wrong ones are."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from dashboard.analysis.series import chunks, finite, thinned
from dashboard.charts.theme import BLUE, GREEN, GREY, VERMILION, add_curve, figure, height_for_curves, label, striped, worker_line
from longtail.schemas.telemetry import Lengths, Series

BINS, MOST_COLUMNS = 10, 120


def reward_distribution(steps: Sequence[Lengths]) -> go.Figure | None:
    """The share of responses by reward, step by step; neighbouring steps of a long run share a column. None where no rewards are told."""
    told = chunks([item for item in steps if item.rewards], MOST_COLUMNS)
    if not told:
        return None
    rewards = [[reward for item in chunk for reward in item.rewards or ()] for chunk in told]
    values = sorted({value for column in rewards for value in column})
    if len(values) <= BINS:
        names = [f"{value:g}" for value in values]
        counts = [[column.count(value) for value in values] for column in rewards]
    else:
        edges = np.linspace(values[0], values[-1], BINS + 1)
        names = [f"{low:.2f} to {high:.2f}" for low, high in pairwise(edges)]
        counts = [np.histogram(column, edges)[0].tolist() for column in rewards]
    shares = [[100 * one / max(sum(column), 1) for one in column] for column in counts]
    chart = figure("step", "reward").update_layout(hovermode="closest", showlegend=True)
    chart.add_heatmap(
        x=[chunk[0].step for chunk in told],
        y=names,
        z=list(map(list, zip(*shares, strict=True))),
        zmin=0,
        zmax=100,
        colorscale="Cividis",
        colorbar={"title": "0 to 100 % of responses", "thickness": 12},
        hovertemplate="step %{x}, reward %{y}: %{z:.0f} % of the responses<extra></extra>",
    )
    return chart.update_yaxes(type="category", rangemode="normal")


def groups(metrics: Mapping[str, Series]) -> go.Figure | None:
    """Shares of prompts whose responses are all right, all wrong, or neither: only the last teach."""
    right, wrong = (dict(thinned(finite(metrics.get(key, Series())))) for key in ("all_right_share", "all_wrong_share"))
    steps = sorted(right.keys() & wrong.keys())
    if not steps:
        return None
    mixed = [1 - right[step] - wrong[step] for step in steps]
    chart = figure("step", "prompts (%)").update_layout(showlegend=True)
    areas = (
        ("all wrong", VERMILION, "x", [wrong[step] for step in steps]),
        ("some right", BLUE, "", mixed),
        ("all right", GREEN, "/", [right[step] for step in steps]),
    )
    for name, shade, shape, values in areas:
        style = {"stackgroup": "shares", "mode": "lines", "hovertemplate": "%{y:.0f} %", **striped(shade, shape)}
        chart.add_scatter(x=steps, y=[100 * value for value in values], name=name, **style)
    return chart.update_yaxes(range=[0, 100])


def lengths_by_outcome(metrics: Mapping[str, Series]) -> go.Figure | None:
    """Mean length of right and of wrong responses."""
    lines = {name: thinned(finite(metrics.get(key, Series()))) for name, key in (("right", "right_tokens"), ("wrong", "wrong_tokens"))}
    if not any(lines.values()):
        return None
    chart = figure("step", "tokens per response").update_layout(showlegend=True)
    for (name, points), shade, dash in zip(lines.items(), (GREEN, VERMILION), ("solid", "dash"), strict=True):
        add_curve(chart, points, name=name, line={"color": shade, "width": 2, "dash": dash}, hovertemplate="%{y:.0f}")
    return chart


def throughput(whole: Series, workers: Mapping[str, Series]) -> go.Figure | None:
    """Generated tokens a second: of all workers over the rollout, and of each while it generates; keys of ``workers`` are their names."""
    points = thinned(finite(whole))
    if not points:
        return None
    chart = figure("step", "tokens per second", height_for_curves(len(workers) + 1)).update_layout(showlegend=True)
    add_curve(chart, points, name="all, over the rollout", line={"color": GREY, "width": 3}, hovertemplate="%{y:,.0f}")
    for index, (name, series) in enumerate(workers.items()):
        line = worker_line(index) | {"shape": "linear"}
        add_curve(chart, thinned(finite(series)), name=label(name), line=line, hovertemplate="%{y:,.0f}")
    return chart
