"""The last answers to what a tab asks the API for by itself, as its own controls say: shown on while the API is away."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

from dashboard.widgets.api_errors import explain
from longtail import ApiError

Found = TypeVar("Found")


def fetch_or_cached(key: str, asked: Hashable, fetch: Callable[[], Found]) -> Found | None:
    """What ``fetch`` finds, or else what it found when the same was ``asked`` last, if anything. What the API refuses is explained; that it
    is away, the page says by itself."""
    try:
        found = fetch()
    except ApiError as error:
        if error.status:
            explain(error)
        before, found = st.session_state.get(key, (None, None))
        return found if before == asked else None
    st.session_state[key] = asked, found
    return found
