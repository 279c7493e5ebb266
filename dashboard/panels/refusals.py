"""What the API refuses of a form, in the form's own words: the API knows patterns, the visitor wants to know what to write."""

from collections.abc import Mapping

import streamlit as st

from backend.client import ApiError
from dashboard.connection import explain
from dashboard.formats import plain, words


def refused(error: ApiError, wanted: Mapping[str, str]) -> None:
    """At the form, whose fields keep what was typed. ``wanted``: what is to be written, as Markdown, by the API's name of the field."""
    if not error.errors:
        explain(error)
        return
    told = [wanted.get(fault.field) or f"**{plain(words(fault.field))}**: {plain(fault.message)}" for fault in error.errors]
    st.error("  \n".join(dict.fromkeys(told)), icon="⚠️")
