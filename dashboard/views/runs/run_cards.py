"""The list of runs as cards."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dashboard.analysis.run_groups import RunGroup, group_row
from dashboard.text.formats import percent, ratio
from dashboard.views.runs.run_table import row
from dashboard.widgets.cards import Card
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run

FIRST = ("State", "Kind", "Progress")
SHOWN = ("Time", "Reward", "Speed-up", "Created")


def run_cards(runs: Sequence[Run], glances: Mapping[str, RunOverview], projects: Mapping[str, str], now: datetime) -> list[Card]:
    return [_run_card(run, row(run, glances.get(run.id), now, projects)) for run in runs]


def group_cards(groups: Sequence[RunGroup], glances: Mapping[str, RunOverview]) -> list[Card]:
    """Each leads to its first run."""
    return [_group_card(group_row(group, glances), group.runs[0]) for group in groups]


def _group_card(facts: Mapping[str, str], first: Run) -> Card:
    name, *others = facts
    return Card(facts[name] or first.id, {heading: facts[heading] for heading in others}, address=_address(first))


def _run_card(run: Run, cells: Mapping[str, Any]) -> Card:
    line = " · ".join(_text(name, cells[name]) for name in FIRST)
    return Card(run.name or run.id, {name: _text(name, cells[name]) for name in SHOWN}, line, _address(run))


def _address(run: Run) -> str:
    return f"/run?id={run.id}"


def _text(name: str, value: Any) -> str:
    if value is None or value == []:
        return ""
    if name == "Progress":
        return percent(value / 100)
    if name == "Speed-up":
        return ratio(value)
    return ", ".join(value) if isinstance(value, list) else str(value)
