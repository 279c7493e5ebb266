"""The runs as cards, for a phone, on which one would see two columns of the grid. The style sheet shows one or the other."""

import html
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dashboard.text.escaping import visible
from dashboard.text.formats import percent, ratio
from dashboard.views.runs.run_table import row
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run

FIRST = ("State", "Kind", "Progress")
SHOWN = ("Time", "Reward", "Speed-up", "Created")


def run_cards(runs: Sequence[Run], glances: Mapping[str, RunOverview], projects: Mapping[str, str], now: datetime) -> str:
    """HTML, in which nothing of a run is markup: each card is a link with the run's name, and its figures below."""
    cards = "".join(_card(run, row(run, glances.get(run.id), now, projects)) for run in runs)
    return f'<div class="run-cards" role="list" aria-label="Runs">{cards}</div>'


def _card(run: Run, cells: Mapping[str, Any]) -> str:
    told = {name: text for name in SHOWN if (text := _text(name, cells[name]))}
    facts = "".join(f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(visible(text))}</dd></div>" for name, text in told.items())
    name = html.escape(visible(run.name)) or run.id
    first = html.escape(" · ".join(_text(name, cells[name]) for name in FIRST))
    return f'<div role="listitem"><a href="/run?id={run.id}" target="_self">{name}</a><p>{first}</p><dl>{facts}</dl></div>'


def _text(name: str, value: Any) -> str:
    if value is None or value == []:
        return ""
    if name == "Progress":
        return percent(value / 100)
    if name == "Speed-up":
        return ratio(value)
    return ", ".join(value) if isinstance(value, list) else str(value)
