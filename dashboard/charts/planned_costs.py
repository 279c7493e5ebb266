"""What a plan says: where a step's seconds go in every way to run it, and time and money against the number of GPUs."""

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard.charts.theme import BLUE, GREY, ORANGE, PHASE_COLORS, PHASE_SHAPES, SKY, SYMBOLS, figure, filled, height_for_runs
from longtail.schemas.plans import Influence, Offer, PlannedArm


def phases_by_arm(arms: Sequence[PlannedArm]) -> go.Figure:
    """Seconds of a step, stacked, a bar for each arm; the first on top."""
    chart = figure("seconds per step", "", height_for_runs(len(arms))).update_layout(
        barmode="stack", hovermode="closest", showlegend=True, bargap=0.3
    )
    for phase, shade in PHASE_COLORS.items():
        seconds = [arm.phases.get(phase, 0.0) for arm in arms]
        if any(seconds):
            names = [arm.name for arm in arms]
            hover = f"{phase} %{{x:.3g}} s<extra></extra>"
            chart.add_bar(orientation="h", x=seconds, y=names, name=phase, marker=filled(shade, PHASE_SHAPES[phase]), hovertemplate=hover)
    chart.update_yaxes(autorange="reversed", type="category", rangemode="normal")
    return chart.update_layout(legend_traceorder="normal")


def costs_by_gpus(offers: Sequence[Offer]) -> go.Figure:
    """Hours on the left, dollars on the right; both axes of time and GPUs are logarithmic."""
    chart = figure("GPUs", "hours").update_layout(showlegend=True)
    gpus = [offer.gpus for offer in offers]
    told = [offer.machines for offer in offers]
    mode = "lines+markers" if len({offer.machines.partition(":")[0] for offer in offers}) == 1 else "markers"
    lines = (
        ("TLT, hours", [offer.hours for offer in offers], BLUE, "solid", "y"),
        ("plain, hours", [offer.plain_hours for offer in offers], GREY, "dot", "y"),
        ("TLT, dollars", [offer.dollars for offer in offers], ORANGE, "dash", "y2"),
        ("plain, dollars", [offer.plain_dollars for offer in offers], SKY, "dashdot", "y2"),
    )
    for (name, values, shade, dash, axis), symbol in zip(lines, SYMBOLS, strict=False):
        look = {"mode": mode, "line": {"color": shade, "dash": dash, "width": 2}, "marker": {"symbol": symbol, "size": 8}}
        chart.add_scatter(x=gpus, y=values, name=name, yaxis=axis, text=told, hovertemplate="%{text}: %{y:,.3g}", **look)
    chart.update_xaxes(type="log", tickvals=sorted(set(gpus)), ticktext=[str(count) for count in sorted(set(gpus))])
    right = {"title": "dollars", "overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False}
    return chart.update_layout(yaxis2=right)


def influences(found: Sequence[Influence], now: float) -> go.Figure:
    """From the step with half of an input to that with twice as much; ``now``: seconds of a step as configured."""
    chart = figure("seconds per step", "", height_for_runs(len(found))).update_layout(hovermode="closest", showlegend=True)
    names = [each.input for each in found]
    half, twice = [each.half for each in found], [each.twice for each in found]
    for name, values, shade, symbol in (("half", half, SKY, "circle"), ("twice", twice, ORANGE, "diamond")):
        marker = {"size": 12, "color": shade, "symbol": symbol}
        hover = f"{name}: %{{x:.3g}} s<extra></extra>"
        chart.add_scatter(orientation="h", x=values, y=names, name=name, mode="markers", marker=marker, hovertemplate=hover)
    chart.add_vline(x=now, line={"dash": "dot", "width": 1, "color": GREY})
    return chart.update_yaxes(autorange="reversed", type="category", rangemode="normal")
