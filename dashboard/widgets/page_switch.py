"""The way to another page."""

from collections.abc import Mapping
from typing import NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

WANTED = "go"
"""Key of the session: the page on which something was clicked, the one that it leads to, and the parameters of that one's address."""
state = st.session_state


def switch_page(file: str, address: Mapping[str, str] | None = None) -> NoReturn:
    """``address``: its parameters. Of what this page still asks for, such as a look for news or the second one of two clicks, nothing is
    answered any more: Streamlit would answer when the other page is drawn, and the browser, which hears of this page then, clear it."""
    context = get_script_run_ctx()
    assert context is not None, "not called by a page"
    context.fragment_storage.clear()
    st.switch_page(file, query_params=address)


def go_from(page: str, file: str, address: Mapping[str, str]) -> None:
    """For a callback on the page of the file ``page``, as a click whose button is drawn anew meanwhile counts there only."""
    state[WANTED] = page, file, address


def leave(page: str) -> None:
    """Where a callback wanted to go. What was clicked on another page than ``page`` leads nowhere any more: its reader has gone on."""
    clicked_on, file, address = state.pop(WANTED, ("", "", {}))
    if file and clicked_on == page:
        switch_page(file, address)
