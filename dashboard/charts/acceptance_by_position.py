"""Share of the drafted tokens that the target accepts, by their position in the draft."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dashboard.analysis.acceptance import SOURCE_NAMES, DraftSource, PositionCounts, position_counts
from dashboard.charts.theme import BLUE, ORANGE, figure, filled
from dashboard.text.formats import every, last_steps
from longtail.schemas.telemetry import SpeculationStep

COLORS: Mapping[DraftSource, str] = {"eagle": BLUE, "ngram": ORANGE}
EARLY = "/"


def acceptance_by_position(
    steps: Sequence[SpeculationStep], recent: Sequence[SpeculationStep] = (), spacing: int = 1, last: int = 5
) -> go.Figure:
    """Share of each source's tokens that were accepted at each draft position, in the first (hatched) and in the ``last`` steps. Of a long
    run ``steps`` are only some, ``spacing`` apart, and ``recent`` the latest, every one."""
    chart = figure("draft position", "accepted (%)").update_layout(hovermode="x", showlegend=True)
    late = (steps if spacing == 1 else recent)[-last:]
    early = steps[:last]
    first = f"first {last} steps" if spacing == 1 or not early else f"{every(spacing)} from {early[0].step} to {early[-1].step}"
    for source, name in SOURCE_NAMES.items():
        shade = COLORS[source]
        if len(steps) > last:
            _add_acceptance(chart, position_counts(early, source), f"{name}, {first}", shade, EARLY)
        _add_acceptance(chart, position_counts(late, source), f"{name}, {last_steps(len(late))}", shade)
    return chart.update_xaxes(dtick=1).update_yaxes(range=[0, 100])


def _add_acceptance(chart: go.Figure, found: PositionCounts, name: str, shade: str, shape: str = "") -> None:
    used = [i for i, count in enumerate(found.drafted) if count]
    if used:
        chart.add_bar(
            x=[i + 1 for i in used],
            y=[100 * found.accepted[i] / found.drafted[i] for i in used],
            customdata=[found.drafted[i] for i in used],
            name=name,
            marker=filled(shade, shape),
            hovertemplate="%{y:.0f} % of %{customdata:,}",
        )
