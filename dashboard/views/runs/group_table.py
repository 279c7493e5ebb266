"""Runs by configuration: seeds of one are one row. Selecting a row selects its runs."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from dashboard.analysis.run_groups import RunGroup, group_row
from dashboard.text.escaping import without_shortcodes
from dashboard.text.formats import MISSING, typeable
from dashboard.views.runs.selection import SELECTED, note_selection, rows_to_select
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run

TALLEST, PIXELS = 50, 1800
"""Rows that are shown at once, and how high a table is that has more."""


def group_table(groups: Sequence[RunGroup], glances: Mapping[str, RunOverview]) -> list[Run]:
    """The runs selected."""
    ids = [[run.id for run in group.runs] for group in groups]
    key = f"run-groups-{hashlib.sha256(repr(ids).encode()).hexdigest()[:12]}"
    rows = [{name: without_shortcodes(typeable(text)) or None for name, text in group_row(group, glances).items()} for group in groups]
    event = st.dataframe(
        rows,
        hide_index=True,
        height="content" if len(rows) <= TALLEST else PIXELS,
        placeholder=MISSING,
        alt="Runs by configuration",
        key=key,
        on_select=partial(note_selection, key, ids),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": rows_to_select(key, ids)}},
    )
    selected = [run for number in event.selection.rows for run in groups[number].runs]
    st.session_state[SELECTED] = [run.id for run in selected]
    return selected
