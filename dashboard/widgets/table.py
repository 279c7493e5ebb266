"""Tables of foreign text, shown as text."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dashboard.text.escaping import escaped
from dashboard.widgets.cell_labels import label_next_table

Rows = list[dict[str, str]]


def table(rows: Sequence[Mapping[str, str]], run_ids: Sequence[str] = ()) -> None:
    """All rows have the same headings; with ``run_ids`` the first cell of each is a link to its run."""
    shown = [{escaped(heading): escaped(cell) for heading, cell in row.items()} for row in rows]
    columns = {heading: [row[heading] for row in shown] for heading in shown[0]}
    if run_ids:
        first = next(iter(columns))
        columns[first] = [link(cell, run_id) for cell, run_id in zip(columns[first], run_ids, strict=True)]
    label_next_table(list(rows[0]))
    st.table(columns, border="horizontal", hide_index=True)


def link(text: str, run_id: str) -> str:
    """Markdown of a link to a run; ``text`` is Markdown too."""
    return f"[{text}](/run?id={run_id})"
