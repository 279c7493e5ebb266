"""Light or dark, and where that is chosen."""

import streamlit as st

from dashboard.widgets.panel import panel


def appearance() -> None:
    theme = st.context.theme.type or "not known yet"
    with panel("Theme"):
        st.markdown(
            "Light, dark, or as your system: in the menu **⋮** at the top right of every page. "
            f"The browser remembers the choice. Now: **{theme}**."
        )
        st.caption("The charts' colours (Okabe and Ito) can be told apart by the colour-blind, on light and on dark.")
