"""Leads to another page from a callback."""

import streamlit as st

state = st.session_state


def go(page: str, name: str, value: str) -> None:
    """For a callback, as a click whose button is drawn anew meanwhile counts there only: ``leave`` goes."""
    state["go"] = page, {name: value}


def leave() -> None:
    if wanted := state.pop("go", None):
        st.switch_page(wanted[0], query_params=wanted[1])
