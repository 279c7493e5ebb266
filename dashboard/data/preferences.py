"""What a user keeps for themselves: pinned charts, columns, saved views. Asked for once in a session."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from dashboard.auth.api_client import client
from dashboard.text.escaping import escaped
from longtail import ApiError

KEPT = "preferences"


def preference(name: str) -> list[Any]:
    """Empty where nothing is kept."""
    if KEPT not in st.session_state:
        st.session_state[KEPT] = client().preferences()
    found: list[Any] = st.session_state[KEPT].get(name, [])
    return found


def change(name: str, edit: Callable[[list[Any]], Sequence[Any]]) -> None:
    """``edit`` gets what is kept by now: another window may have added to it. Nothing changes where the API does not answer."""
    if _answered(lambda: st.session_state.update({KEPT: client().preferences()})):
        keep(name, edit(preference(name)))


def keep(name: str, value: Sequence[Any]) -> None:
    """From now on, in every session of the user; in this one only, where the API does not take it."""
    _answered(lambda: client().set_preference(name, value))
    st.session_state.setdefault(KEPT, {})[name] = list(value)


def _answered(ask: Callable[[], object]) -> bool:
    """Often asked by a click, which acts before the page is drawn: then nothing but a toast can tell that it was in vain."""
    try:
        ask()
    except ApiError as error:
        st.toast(f"**Not kept**: {escaped(str(error))}", icon="⚠️", duration="long")
        return False
    return True
