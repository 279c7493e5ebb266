"""Where the seconds of compared runs go, and how far a faster rollout can carry them. Keys of ``names`` are run ids."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from backend.schemas.comparison import AlignedMetric, ComparedRun
from dashboard.charts.theme import GREY, PHASES, SYMBOLS, color, figure, label

SOMETIMES = "evaluation"
"""A phase that not every step has: a mean over steps says little about it."""
ROW, FRAME, LEAST_ROWS = 34, 110, 5


def _height(names: Mapping[str, str]) -> int:
    """The same for both charts, as they stand side by side."""
    return FRAME + ROW * max(LEAST_ROWS, len(names))


def end_to_end(share: float, speedup: float) -> float:
    """Amdahl's law: how much faster a step is whose rollout, ``share`` of it, runs ``speedup`` times as fast."""
    return 1 / ((1 - share) + share / speedup)


def amdahl(items: Sequence[ComparedRun], names: Mapping[str, str]) -> go.Figure:
    """Each run against the baseline, ``items[0]``, and the line on which it is if nothing but the rollout has become faster."""
    chart = figure("rollout r (×)", "end to end (×)", _height(names))
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


def phase_means(metrics: Sequence[AlignedMetric], run_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean seconds of a step by phase and run, over the steps that all runs have."""
    found = {metric.key.removeprefix("phase/"): metric for metric in metrics if metric.key.startswith("phase/")}
    usual = [name for name in PHASES if name in found and name != SOMETIMES]
    return {name: means for name in usual if (means := _means(found[name], run_ids))}


def phases(metrics: Sequence[AlignedMetric], names: Mapping[str, str]) -> go.Figure:
    """Seconds of a mean step, a bar for each run, the baseline on top."""
    chart = figure("seconds per step", "", _height(names)).update_layout(barmode="stack", hovermode="closest", showlegend=True, bargap=0.3)
    for phase, means in phase_means(metrics, list(names)).items():
        chart.add_bar(
            orientation="h",
            x=[means[run_id] for run_id in names],
            y=list(names),
            name=phase,
            marker_color=PHASES[phase],
            hovertemplate=f"{phase} %{{x:.3g}} s<extra></extra>",
        )
    ticks = [label(name) for name in names.values()]
    chart.update_yaxes(autorange="reversed", tickvals=list(names), ticktext=ticks, type="category", rangemode="normal")
    return chart.update_layout(legend_traceorder="normal")


def _means(metric: AlignedMetric, run_ids: Sequence[str]) -> dict[str, float]:
    """Empty if there is no step that all have."""
    rows = zip(*(metric.values[run_id] for run_id in run_ids), strict=True)
    shared = [row for row in rows if None not in row]
    return dict(zip(run_ids, np.mean(shared, axis=0).tolist(), strict=True)) if shared else {}
