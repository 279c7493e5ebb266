"""The dashboard's way to the API, and what it shows while there is none."""

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from backend.client import ApiError, Longtail
from dashboard.formats import plain

RETRY_SECONDS = 3


@st.cache_resource
def client() -> Longtail:
    return Longtail(timeout=10)


@contextmanager
def answered() -> Iterator[None]:
    """Runs a page's requests. If the API refuses, the page says why; if it is away, the page comes back by itself."""
    try:
        yield
    except ApiError as error:
        explain(error)
        if not error.status:
            st.button("Try again")
            st.fragment(_wait_for_api, run_every=RETRY_SECONDS)()
        st.stop()


def explain(error: ApiError) -> None:
    if error.status:
        st.error(f"**{plain(error.title)}**: {plain(str(error))}", icon="⚠️")
    else:
        st.warning(f"**The Longtail API does not answer** at {plain(client().base_url)}. This page goes on as soon as it does.", icon="🔌")


def _wait_for_api() -> None:
    try:
        client().runs(limit=1)
    except ApiError:
        return
    st.rerun()
