"""How a drafter comes along that is trained before the first step, over the minutes of its training."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dashboard.charts.theme import BLUE, GREEN, GREY, ORANGE, add_curve, figure
from longtail.schemas.telemetry import PretrainingRound

SHARES: Mapping[str, tuple[str, str, str]] = {
    "accepted drafts": ("held_out", BLUE, "solid"),
    "top-1": ("top1", GREEN, "dash"),
    "top-3": ("top3", ORANGE, "dot"),
}
COUNTS: Mapping[str, str] = {"responses": "responses", "tokens": "response_tokens"}


def accept_length(rounds: Sequence[PretrainingRound]) -> go.Figure:
    """What chains are expected to bring; plain decoding is at 1."""
    chart = figure("minutes", "tokens per target pass")
    _curve(chart, rounds, "accept_length", BLUE, "accept length", 1, "%{y:.2f}")
    line = {"dash": "dot", "width": 1, "color": GREY}
    return chart.add_hline(y=1, line=line, annotation_text="plain decoding", annotation_position="top right")


def shares(rounds: Sequence[PretrainingRound]) -> go.Figure:
    """Of held-out drafts or positions, in percent."""
    chart = figure("minutes", "%").update_layout(showlegend=True)
    for name, (field, color, dash) in SHARES.items():
        _curve(chart, rounds, field, color, name, 100, "%{y:.1f} %", dash)
    return chart


def written(rounds: Sequence[PretrainingRound], what: str) -> go.Figure:
    """``what`` is of COUNTS."""
    chart = figure("minutes", what)
    _curve(chart, rounds, COUNTS[what], GREEN, what, 1, "%{y:,}")
    return chart


def loss(rounds: Sequence[PretrainingRound]) -> go.Figure:
    chart = figure("minutes", "loss")
    _curve(chart, rounds, "loss", ORANGE, "loss", 1, "%{y:.3f}")
    return chart


def _curve(
    chart: go.Figure, rounds: Sequence[PretrainingRound], field: str, color: str, name: str, scale: float, hover: str, dash: str = "solid"
) -> None:
    points = [(one.seconds / 60, scale * value) for one in rounds if (value := getattr(one, field)) is not None]
    add_curve(chart, points, name=name, line={"color": color, "width": 2.5, "dash": dash}, hovertemplate=hover)
    chart.update_xaxes(rangemode="tozero", hoverformat=".1f")
