"""Why speculation pays, or does not: what the target accepts of each drafter's drafts."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import plotly.graph_objects as go

from backend.schemas.telemetry import Series, SpeculationStep
from dashboard.charts.theme import BLUE, ORANGE, faded, figure
from dashboard.formats import last_steps

Drafter = Literal["eagle", "ngram"]
DRAFTERS: Mapping[Drafter, tuple[str, str]] = {"eagle": ("learned drafter", BLUE), "ngram": ("n-grams", ORANGE)}
FAINT = 0.4


class Counts(NamedTuple):
    """Tokens by draft position."""

    drafted: Sequence[int]
    accepted: Sequence[int]

    @property
    def accept_length(self) -> float | None:
        """Tokens that a pass of the target brings with a draft, its own one included; None without a draft."""
        return 1 + sum(self.accepted) / self.drafted[0] if self.drafted and self.drafted[0] else None


def counts(steps: Sequence[SpeculationStep], drafter: Drafter) -> Counts:
    """Of one drafter over ``steps``. What was not told apart counts as the learned drafter's."""
    ngrams = Counts(
        _totals([step.ngram_drafted_by_position or [] for step in steps]),
        _totals([step.ngram_accepted_by_position or [] for step in steps]),
    )
    if drafter == "ngram":
        return ngrams
    both = (_totals([step.drafted_by_position for step in steps]), _totals([step.accepted_by_position for step in steps]))
    return Counts(*(_minus(whole, part) for whole, part in zip(both, ngrams, strict=True)))


def accept_lengths(steps: Sequence[SpeculationStep]) -> dict[str, Series]:
    """A series for each drafter that drafted, by its name."""
    found = {}
    for drafter, (name, _) in DRAFTERS.items():
        values = [(step.step, counts([step], drafter).accept_length) for step in steps]
        if any(value is not None for _, value in values):
            found[name] = Series(steps=[step for step, _ in values], values=[value for _, value in values])
    return found


def acceptance(steps: Sequence[SpeculationStep], last: int = 5) -> go.Figure:
    """Share of each drafter's tokens that were accepted at each draft position, in the first (faint) and in the ``last`` steps."""
    chart = figure("draft position", "accepted (%)").update_layout(hovermode="x", showlegend=True)
    late = steps[-last:]
    for drafter, (name, shade) in DRAFTERS.items():
        if len(steps) > last:
            _add_acceptance(chart, counts(steps[:last], drafter), f"{name}, first {last} steps", faded(shade, FAINT))
        _add_acceptance(chart, counts(late, drafter), f"{name}, {last_steps(len(late))}", shade)
    return chart.update_xaxes(dtick=1).update_yaxes(range=[0, 100])


def _add_acceptance(chart: go.Figure, found: Counts, name: str, shade: str) -> None:
    used = [i for i, count in enumerate(found.drafted) if count]
    if used:
        chart.add_bar(
            x=[i + 1 for i in used],
            y=[100 * found.accepted[i] / found.drafted[i] for i in used],
            customdata=[found.drafted[i] for i in used],
            name=name,
            marker_color=shade,
            hovertemplate="%{y:.0f} % of %{customdata:,}",
        )


def _totals(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(row[i] for row in rows if i < len(row)) for i in range(max(map(len, rows), default=0))]


def _minus(whole: Sequence[int], part: Sequence[int]) -> list[int]:
    return [count - (part[i] if i < len(part) else 0) for i, count in enumerate(whole)]
