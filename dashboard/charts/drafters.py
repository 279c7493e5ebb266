"""Did training the drafter help it?"""

from collections.abc import Sequence

import plotly.graph_objects as go

from backend.schemas.telemetry import DrafterSession
from dashboard.charts.theme import GREEN, GREY, VERMILION, figure


def held_out(sessions: Sequence[DrafterSession]) -> go.Figure:
    """Held-out acceptance before and after each training session; a filled dot was published to the engines, a cross was not."""
    chart = figure("step", "held-out acceptance").update_layout(hovermode="closest")
    before = [session.held_out_before for session in sessions]
    steps = [session.step for session in sessions]
    line = {"color": GREY, "width": 1.5, "dash": "dot"}
    chart.add_scatter(x=steps, y=before, name="before", mode="lines", line=line, hovertemplate="before: %{y:.3f}<extra></extra>")
    for published, name, symbol, shade in ((True, "after, published", "circle", GREEN), (False, "after, not published", "x", VERMILION)):
        chosen = [session for session in sessions if session.published is published]
        chart.add_scatter(
            x=[session.step for session in chosen],
            y=[session.held_out_after for session in chosen],
            name=name,
            mode="markers",
            marker={"color": shade, "size": 8, "symbol": symbol},
            customdata=[(session.drafter_version, session.tokens) for session in chosen],
            hovertemplate="version %{customdata[0]}: %{y:.3f} after %{customdata[1]:,} tokens<extra></extra>",
        )
    return chart.update_yaxes(rangemode="normal").update_layout(showlegend=True)
