"""The way to another page."""

from collections.abc import Mapping
from typing import NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx


def switch_page(file: str, address: Mapping[str, str] | None = None) -> NoReturn:
    """``address``: its parameters. Of what this page still asks for, such as a look for news or the second one of two clicks, nothing is
    answered any more: Streamlit would answer when the other page is drawn, and the browser, which hears of this page then, clear it."""
    context = get_script_run_ctx()
    assert context is not None, "not called by a page"
    context.fragment_storage.clear()
    st.switch_page(file, query_params=address)
