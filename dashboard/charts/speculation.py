"""Why speculation pays, or does not: acceptance by draft position and the speed of each strategy."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import plotly.graph_objects as go

from backend.schemas.telemetry import SpeculationStep
from dashboard.charts.strategies import shades, strategy_label, strategy_order
from dashboard.charts.theme import BLUE, SKY, figure


def acceptance(steps: Sequence[SpeculationStep], last: int = 5) -> go.Figure:
    """Share of drafted tokens that were accepted at each draft position, in the first and in the ``last`` steps."""
    chart = figure("draft position", "accepted (%)").update_layout(hovermode="x", showlegend=True)
    if len(steps) > last:
        _add_acceptance(chart, steps[:last], f"first {last} steps", SKY)
    late = steps[-last:]
    _add_acceptance(chart, late, f"last {len(late)} steps", BLUE)
    return chart.update_xaxes(dtick=1).update_yaxes(range=[0, 100])


def _add_acceptance(chart: go.Figure, steps: Sequence[SpeculationStep], name: str, shade: str) -> None:
    drafted = _totals([step.drafted_by_position for step in steps])
    accepted = _totals([step.accepted_by_position for step in steps])
    used = [i for i, count in enumerate(drafted) if count]
    chart.add_bar(
        x=[i + 1 for i in used],
        y=[100 * accepted[i] / drafted[i] for i in used],
        customdata=[drafted[i] for i in used],
        name=name,
        marker_color=shade,
        hovertemplate="%{y:.0f} % of %{customdata:,}",
    )


def _totals(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(row[i] for row in rows if i < len(row)) for i in range(max(map(len, rows), default=0))]


@dataclass
class _Tally:
    tokens: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


def strategies(steps: Sequence[SpeculationStep]) -> go.Figure:
    """Tokens per second of each strategy by batch-size bucket, labelled with its share of the bucket's decode time: the tuner
    should give most time to the fastest."""
    tallies: dict[str, dict[int, _Tally]] = defaultdict(lambda: defaultdict(_Tally))
    seconds: dict[int, float] = defaultdict(float)
    for arm in (arm for step in steps for arm in step.arms):
        tally = tallies[arm.strategy][arm.bucket]
        tally.tokens += arm.requests + arm.accepted
        tally.seconds += arm.seconds
        seconds[arm.bucket] += arm.seconds
    names = _bucket_names(sorted(seconds))
    chart = figure("running requests of a worker", "tokens per second").update_layout(barmode="group", hovermode="closest", showlegend=True)
    colors = shades(tallies)
    for strategy, used in sorted(tallies.items(), key=lambda item: strategy_order(item[0])):
        chart.add_bar(
            x=[names[bucket] for bucket in sorted(used)],
            y=[used[bucket].rate for bucket in sorted(used)],
            text=[f"{used[bucket].seconds / (seconds[bucket] or 1):.0%}" for bucket in sorted(used)],
            textposition="outside",
            cliponaxis=False,
            name=strategy_label(strategy),
            marker_color=colors[strategy],
            hovertemplate="%{fullData.name}: %{y:,.0f} tokens/s, %{text} of the time<extra></extra>",
        )
    return chart.update_xaxes(type="category", categoryorder="array", categoryarray=list(names.values()))


def _bucket_names(buckets: Sequence[int]) -> dict[int, str]:
    """``{1: "1 to 2", 3: "3 to 7", 8: "8 and more"}``."""
    names = {low: f"{low}" if high == low + 1 else f"{low} to {high - 1}" for low, high in pairwise(buckets)}
    return names | {low: f"{low} and more" for low in buckets[-1:]}
