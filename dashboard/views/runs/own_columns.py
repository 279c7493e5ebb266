"""Columns of one's own in the list: any setting, and any metric of the latest step."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from dashboard.analysis.config_differences import one_line_yaml
from dashboard.data.preferences import keep, preference
from dashboard.text.natural_order import natural_order
from dashboard.widgets.popover import popover
from longtail.schemas.comparison import flat
from longtail.schemas.runs import Run

COLUMNS = "run-columns"
MOST = 8
CONFIG, SUMMARY = "config.", "summary."


def own_columns() -> list[str]:
    """Such as ``config.algorithm.learning_rate`` or ``summary.kl``."""
    return [name for name in preference(COLUMNS) if isinstance(name, str) and name.startswith((CONFIG, SUMMARY))][:MOST]


def offered(runs: Sequence[Run]) -> list[str]:
    """What the runs have: first the settings, then the metrics."""
    settings = {CONFIG + field for run in runs for field, _ in flat(run.config)}
    metrics = {SUMMARY + key for run in runs for key in run.summary}
    return [*sorted(settings, key=natural_order), *sorted(metrics, key=natural_order)]


def cell(run: Run, name: str) -> float | str | None:
    """A number as such, so that it is drawn as one; None where the run has none."""
    value: Any = (
        dict(flat(run.config)).get(name.removeprefix(CONFIG)) if name.startswith(CONFIG) else run.summary.get(name.removeprefix(SUMMARY))
    )
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return one_line_yaml(value)


def choose_columns(runs: Sequence[Run]) -> None:
    popover("Columns", "columns", partial(_choose, runs), help="Settings and metrics to show beside the others")


def _choose(runs: Sequence[Run]) -> None:
    mine = own_columns()
    options = list(dict.fromkeys([*mine, *offered(runs)]))
    chosen = st.multiselect("Columns of your own", options, mine, key="own-columns", max_selections=MOST, width=420)
    if chosen != mine:
        keep(COLUMNS, chosen)
        st.rerun(scope="fragment")
