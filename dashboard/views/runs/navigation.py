"""Leads to another page from a callback."""

import streamlit as st

from dashboard.widgets.page_switch import switch_page

state = st.session_state


def go(page: str, name: str, value: str) -> None:
    """For a callback, as a click whose button is drawn anew meanwhile counts there only: ``leave`` goes."""
    state["go"] = page, {name: value}


def leave() -> None:
    if wanted := state.pop("go", None):
        switch_page(wanted[0], wanted[1])
