"""A choice of which one is always chosen, held by the address."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

state = st.session_state


def one_of(label: str, options: Sequence[str], key: str, place: DeltaGenerator | None = None, **look: Any) -> str:
    """In a row, the first one until another is chosen. ``key``: its name in the address.

    Streamlit takes a name without a value (``?tab=``) for a choice of none of them, and keeps that. So the address loses it: for one
    drawing the choice is its own, as what an address holds for a choice cannot be taken out. And what was chosen of other options under
    this name, such as a tab of another page, Streamlit would write into the address of this one."""
    emptied = st.query_params.get(key) == ""
    if state.get(key, options[0]) not in options:
        del state[key]
    choice: str | None = (place or st).segmented_control(
        label, options, default=options[0], required=True, key=key, bind=None if emptied else "query-params", **look
    )
    if emptied:
        st.query_params.pop(key, None)
        st.rerun()
    return choice or options[0]
