"""What a page says when the API refuses, or is away."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import streamlit as st

from dashboard.auth.api_client import UNAUTHORIZED, client
from dashboard.text.escaping import escaped
from dashboard.text.formats import words
from longtail import ApiError

RETRY_SECONDS = 3


@contextmanager
def answered(way_back: tuple[str, str] | None = None) -> Iterator[None]:
    """Runs a page's requests. If the API refuses, the page says why, with a link to the file, and of the label, of the ``way_back``; if it
    is away, the page comes back by itself."""
    try:
        yield
    except ApiError as error:
        explain(error)
        if error.status and way_back:
            st.page_link(way_back[0], label=way_back[1], query_params={})
        if not error.status:
            st.button("Try again")
            _come_back()
        st.stop()


@contextmanager
def explained(expected: Mapping[str, str] | None = None) -> Iterator[None]:
    """What the API refuses is explained in its place, and the rest of the block left out. ``expected``: see show_form_errors. If it is
    away, the page comes back by itself."""
    try:
        yield
    except ApiError as error:
        if expected is None:
            explain(error)
        else:
            show_form_errors(error, expected)
        if not error.status:
            _come_back()


def explain(error: ApiError) -> None:
    if error.status == UNAUTHORIZED:
        st.info("**You are logged out.** Reload this page to log in again.")
    elif error.status:
        st.error(f"**{escaped(error.title)}**: {escaped(str(error))}", icon="⚠️")
    else:
        st.warning(f"**The Longtail API does not answer** at {escaped(client().base_url)}. This page goes on as soon as it does.")


def _come_back() -> None:
    """As soon as the API answers."""
    st.fragment(_wait_for_api, run_every=RETRY_SECONDS)()


def _wait_for_api() -> None:
    try:
        client().me()
    except ApiError as error:
        if not error.status:
            return
    st.rerun()


def show_form_errors(error: ApiError, expected: Mapping[str, str]) -> None:
    """At the form, whose fields keep what was typed. ``expected``: what is to be written, as Markdown, by the API's name of the field: the
    API knows patterns, the visitor wants to know what to write."""
    if not error.errors:
        explain(error)
        return
    told = [expected.get(fault.field) or f"**{escaped(words(fault.field))}**: {escaped(fault.message)}" for fault in error.errors]
    st.error("  \n".join(dict.fromkeys(told)), icon="⚠️")
