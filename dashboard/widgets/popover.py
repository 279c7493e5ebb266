"""What is behind a button, and made once that is pressed."""

from collections.abc import Callable
from typing import Any

import streamlit as st


def popover(label: str, key: str, show: Callable[[], None], **look: Any) -> None:
    """Streamlit itself would send what ``show`` draws along with the page, each time. The part of the page that this is in is drawn anew
    when it is opened. What was typed into it and nowhere kept is gone when it is closed: with a field for that, take Streamlit's own."""
    with st.popover(label, key=key, on_change="rerun", **look) as place:
        if place.open:
            show()
