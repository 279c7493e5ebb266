"""Which runs are selected in a grid. Streamlit knows rows by their number: where the runs change, so does the grid's key, and what was
selected is carried over by the runs' ids. So is a click on the grid of before, which was on its way while the page was drawn."""

from collections.abc import Sequence

import streamlit as st

SELECTED, PICKED_IN = "selected", "picked-in"
Rows = Sequence[Sequence[str]]
"""The ids of the runs of each row."""
state = st.session_state


def note_selection(key: str, rows: Rows) -> None:
    """For the grid's callback, which hears of clicks on a grid that has been replaced, too."""
    state[SELECTED] = [run_id for number in state[key].selection.rows if number < len(rows) for run_id in rows[number]]
    state[PICKED_IN] = key


def rows_to_select(key: str, rows: Rows) -> list[int]:
    """Before the grid is drawn: what it is to begin with. One that the browser is to hear of already takes over the late click. A row that
    has a run which nobody has selected is none of them: what is done to the selection would be done to that run, too."""
    chosen = set(state.get(SELECTED, ()))
    numbers = [number for number, members in enumerate(rows) if chosen.issuperset(members)]
    if state.pop(PICKED_IN, key) != key and key in state:
        state[key] = {"selection": {"rows": numbers, "columns": []}}
    return numbers
