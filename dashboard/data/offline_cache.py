"""The last answers to what a tab asks the API for by itself, as its own controls say: asked for again where that may bring something new,
and shown on while the API is away."""

from collections.abc import Callable, Hashable
from math import inf
from time import monotonic
from typing import TypeVar

import streamlit as st

from dashboard.widgets.api_errors import explain
from longtail import ApiError

Found = TypeVar("Found")


def fetch_or_cached(key: str, asked: Hashable, fetch: Callable[[], Found], since: float = inf) -> Found | None:
    """What ``fetch`` finds, or what it found when the same was ``asked`` last: that serves if it came after ``since`` (seconds of
    ``time.monotonic``), or if there is no answer now. What the API refuses is explained; that it is away, the page says by itself."""
    kept: tuple[Hashable, Found | None, float] = st.session_state.get(key, (None, None, -inf))
    before, found, came = kept
    if before == asked and came >= since:
        return found
    try:
        found = fetch()
    except ApiError as error:
        if error.status:
            explain(error)
        return found if before == asked else None
    st.session_state[key] = asked, found, monotonic()
    return found
