"""What a user keeps for themselves: pinned charts, columns, saved views. Asked for once in a session."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client

KEPT = "preferences"


def preference(name: str) -> list[Any]:
    """Empty where nothing is kept."""
    if KEPT not in st.session_state:
        st.session_state[KEPT] = client().preferences()
    found: list[Any] = st.session_state[KEPT].get(name, [])
    return found


def change(name: str, edit: Callable[[list[Any]], Sequence[Any]]) -> None:
    """``edit`` gets what is kept by now: another window may have added to it."""
    st.session_state.pop(KEPT, None)
    keep(name, edit(preference(name)))


def keep(name: str, value: Sequence[Any]) -> None:
    """From now on, in every session of the user."""
    client().set_preference(name, value)
    st.session_state.setdefault(KEPT, {})[name] = list(value)
