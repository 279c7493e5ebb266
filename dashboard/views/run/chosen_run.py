"""Which run the page shows."""

import streamlit as st

from dashboard import page_files
from dashboard.auth.api_client import client, run_if_any
from longtail.schemas.runs import Run

LAST, LAST_TAB = "run-shown-last", "tab-shown-last"
"""Keys of the session: the id, and the name of the tab of its page."""
state = st.session_state


def chosen_run() -> Run:
    """The one that the address names; else the one that was shown last, in the tab that was open, as Streamlit leaves an address without
    them in the browser's history when one goes to another page; or else the newest. That tab opens in a run of the script of its own: in
    that of a way back Streamlit takes every choice from the address alone."""
    named = st.query_params.get("id")
    run = client().run(named) if named else _last() or _newest()
    if not named and state.get(LAST) == run.id and LAST_TAB in state:
        st.query_params["id"], state["tab"] = run.id, state[LAST_TAB]
        st.rerun()
    if not named or state.get(LAST, run.id) != run.id:
        st.query_params["id"] = run.id  # which a link from one run's page to another's leaves to the browser, and that leaves as it was
    state[LAST] = run.id
    return run


def _last() -> Run | None:
    return run_if_any(state[LAST]) if LAST in state else None


def _newest() -> Run:
    runs = client().runs(limit=1).items
    if not runs:
        st.info("There is no run yet.")
        st.page_link(page_files.NEW_RUN, label="Start one")
        st.stop()
    return runs[0]
