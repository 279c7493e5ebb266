"""Did training the drafter help it?"""

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboard.analysis.drafter_training import Accuracy, AccuracyDrop
from dashboard.charts.theme import GREEN, GREY, VERMILION, add_curve, figure, filled


def drafter_accuracy(found: Sequence[Accuracy], what: str) -> go.Figure:
    """``what`` before and after each training session; a filled dot was published to the engines, a cross was not."""
    chart = figure("step", f"{what} (%)").update_layout(hovermode="closest", showlegend=True)
    before, style = [(one.session.step, 100 * one.before) for one in found], {"color": GREY, "width": 1.5, "dash": "dot"}
    add_curve(chart, before, name="before", line=style, hovertemplate="step %{x}, before: %{y:.1f} %<extra></extra>")
    for published, name, symbol, shade in ((True, "after, published", "circle", GREEN), (False, "after, not published", "x", VERMILION)):
        chosen = [one for one in found if one.session.published is published]
        chart.add_scatter(
            x=[one.session.step for one in chosen],
            y=[100 * one.after for one in chosen],
            name=name,
            mode="markers",
            marker={"color": shade, "size": 8, "symbol": symbol},
            customdata=[(one.session.drafter_version, one.session.tokens) for one in chosen],
            hovertemplate="step %{x}, version %{customdata[0]}: %{y:.1f} % after %{customdata[1]:,} tokens<extra></extra>",
        )
    return chart.update_yaxes(rangemode="normal")


def accuracy_drops_by_session(found: Sequence[AccuracyDrop], what: str) -> go.Figure:
    """For each session but the first, how far ``what`` was from the level of the session before: at its beginning and at its end."""
    chart = figure("step", f"{what}: change (points)").update_layout(hovermode="x unified", showlegend=True)
    steps = [dip.step for dip in found]
    for name, marker, values in (
        ("before training", filled(VERMILION, "/"), [dip.before - dip.level for dip in found]),
        ("after it", filled(GREEN), [dip.after - dip.level for dip in found]),
    ):
        chart.add_bar(x=steps, y=[100 * value for value in values], name=name, marker=marker, hovertemplate="%{y:+.1f} points")
    return chart.update_yaxes(rangemode="normal", zeroline=True)
