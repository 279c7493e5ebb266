"""The dashboard's way to the API in the name of whoever looks at it, and what it shows while there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import streamlit as st

from backend.client import ApiError, Longtail
from backend.schemas.accounts import Me
from backend.schemas.runs import Run
from dashboard.formats import plain

RETRY_SECONDS = 3
SESSIONS = 256
UNAUTHORIZED, NOT_FOUND = 401, 404


def cookie_name() -> str:
    """Holds the session. Browsers give a cookie to every port of a host, so each dashboard has its own."""
    return f"longtail-session-{st.get_option('server.port')}"


@lru_cache(SESSIONS)
def client_of(session: str) -> Longtail:
    """The API as seen by who has this session; an empty one is nobody, never this machine's own token."""
    return Longtail(token=session, timeout=10)


def client() -> Longtail:
    return client_of(st.context.cookies.get(cookie_name(), ""))


def me() -> Me:
    """Who looks at the page; app.py asks the API before every page."""
    known: Me = st.session_state["me"]
    return known


def run_if_any(run_id: str) -> Run | None:
    """None if there is none in the visitor's sight."""
    try:
        return client().run(run_id)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None


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
    if error.status == UNAUTHORIZED:
        st.info("**You are logged out.** Reload this page to log in again.")
    elif error.status:
        st.error(f"**{plain(error.title)}**: {plain(str(error))}", icon="⚠️")
    else:
        st.warning(f"**The Longtail API does not answer** at {plain(client().base_url)}. This page goes on as soon as it does.")


def _wait_for_api() -> None:
    try:
        client().me()
    except ApiError as error:
        if not error.status:
            return
    st.rerun()
