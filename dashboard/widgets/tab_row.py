"""A row of tabs, of which the chosen one is drawn."""

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.widgets.one_of import one_of


def tab_row(names: Sequence[str]) -> tuple[str, DeltaGenerator]:
    """Which one the reader has chosen, and the place to draw it in. The address holds it as ``tab``.

    With each answer ``st.tabs`` tells the browser which tab to open: who was farther by then was moved back. What is chosen here is the
    browser's own. Each tab has a place of its own, so that what was in another one goes before the chosen one is fetched."""
    chosen = one_of("Tabs", names, "tab", label_visibility="collapsed", wrap=True)
    places = [st.container() if name == chosen else st.empty() for name in names]
    return chosen, places[names.index(chosen)]
