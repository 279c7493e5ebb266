"""Amdahl's law: how far a faster rollout carries each run. Keys of ``names`` are run ids."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from dashboard.charts.theme import GREY, SYMBOLS, color, figure, height_for_runs, label
from longtail.schemas.comparison import ComparedRun


def end_to_end(share: float, speedup: float) -> float:
    """Amdahl's law: how much faster a step is whose rollout, ``share`` of it, runs ``speedup`` times as fast."""
    return 1 / ((1 - share) + share / speedup)


def amdahl(items: Sequence[ComparedRun], names: Mapping[str, str]) -> go.Figure:
    """Each run against the baseline, ``items[0]``, and the line on which it is if nothing but the rollout has become faster."""
    chart = figure("rollout r (×)", "end to end (×)", height_for_runs(len(names)))
    chart.update_layout(hovermode="closest", showlegend=True)
    measured = [(index, item) for index, item in enumerate(items) if index and item.rollout_speedup and item.e2e_speedup]
    share = items[0].rollout_share if items else None
    if share is not None:
        _add_law(chart, share, max([3.0, *(1.2 * (item.rollout_speedup or 0) for _, item in measured)]))
    for index, item in measured:
        marker = {"size": 11, "color": color(index), "symbol": SYMBOLS[index % len(SYMBOLS)]}
        hover = "r %{x:.2f}, end to end %{y:.2f}"
        chart.add_scatter(
            x=[item.rollout_speedup],
            y=[item.e2e_speedup],
            name=label(names[item.run.id]),
            mode="markers",
            marker=marker,
            hovertemplate=hover,
        )
    return chart.update_xaxes(rangemode="normal").update_yaxes(rangemode="normal")


def _add_law(chart: go.Figure, share: float, most: float) -> None:
    speedups = np.linspace(0.5, most, 100)
    line = {"color": GREY, "width": 2}
    name = f"1 / ((1 - s) + s / r), s = {100 * share:.0f} %"
    speeds = [end_to_end(share, each) for each in speedups]
    chart.add_scatter(x=speedups.tolist(), y=speeds, name=name, mode="lines", line=line, hoverinfo="skip")
    ceiling = 1 / (1 - share) if share < 1 else None
    if ceiling is not None and ceiling < 2 * speeds[-1]:
        chart.add_hline(
            y=ceiling,
            line={"dash": "dot", "width": 1, "color": GREY},
            annotation_text=f"{ceiling:.2f}× if rollout took no time",
            annotation_position="bottom right",
        )
