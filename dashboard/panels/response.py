"""A response and what drafted it. The only HTML of the dashboard: dashboard.pieces makes it, and tests that hold it to its word."""

import streamlit as st

from backend.schemas.telemetry import SampleItem
from dashboard import pieces


def response(item: SampleItem) -> None:
    st.html(pieces.response(item.response, item.pieces))


def legend() -> None:
    st.html(pieces.legend(), width="content")
