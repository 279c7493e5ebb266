"""What is behind a button, and made once that is pressed."""

from collections.abc import Callable
from typing import Any

import streamlit as st


def popover(label: str, key: str, show: Callable[[], None], **look: Any) -> None:
    """Streamlit itself would send what ``show`` draws along with the page, each time. The part of the page that this is in is drawn anew
    when it is opened."""
    with st.popover(label, key=key, on_change="rerun", **look) as place:
        if place.open:
            show()
